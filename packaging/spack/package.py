# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# For Spack: put this file into packages/ompi-spec/ of a repository (spack repo create), then 'spack install ompi-spec'.
from spack.package import *


class OmpiSpec(AutotoolsPackage):
    """Open MPI components: receives that overlap with computation (pml/spec), RDMA over plain Ethernet and over adapters
    (btl/ibx), a registration cache (rcache/lazy) and a pool of registered memory (mpool/freq)."""

    homepage = "https://example.org/ompi-spec"
    url = "https://example.org/ompi-spec/ompi-spec-0.1.0a1.tar.gz"
    git = "https://example.org/ompi-spec.git"

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("verbs", default=True, description="RDMA adapters: libibverbs, librdmacm")

    depends_on("c", type="build")
    depends_on("autoconf", type="build", when="@main")
    depends_on("automake", type="build", when="@main")
    depends_on("libtool", type="build", when="@main")
    depends_on("perl", type="build")
    # With its development headers; configure tells if they are missing.
    depends_on("openmpi@4.1,5.0,6.0")
    depends_on("pmix", when="^openmpi@5:")
    depends_on("hwloc")
    depends_on("libevent")
    depends_on("libsodium")
    depends_on("rdma-core", when="+verbs")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.pl")()

    def configure_args(self):
        args = [
            "--with-mpicc={0}".format(join_path(self.spec["openmpi"].prefix.bin, "mpicc")),
            "--with-component-dir={0}".format(self.prefix.lib.openmpi),
        ]
        if self.spec.satisfies("+verbs"):
            args.append("--with-verbs={0}".format(self.spec["rdma-core"].prefix))
        else:
            args.append("--without-verbs")
        return args

    def setup_run_environment(self, env):
        # Open MPI 4.1 finds its own beside them; since 5.0 its own are in its libraries.
        path = str(self.prefix.lib.openmpi)
        if self.spec.satisfies("^openmpi@:4"):
            path += ":SYSTEM_DEFAULT"
        else:
            env.set("PMIX_MCA_mca_base_component_show_load_errors", "none")
        env.set("OMPI_MCA_mca_base_component_path", path)
