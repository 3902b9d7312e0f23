# Shared by quickstart, check and test/install/run: packages, the build out of tree, the private installation, and the
# environment in which Open MPI finds it. To be sourced by bash with $top set to the top of the source tree.
#
# Nothing here asks a question or reads standard input, everything that could hang is bounded by timeout, and doing it a
# second time does only what is left to do.

# The build and the installation stay in the source tree and touch nothing outside it.
build=$top/_build
install=$top/_install
component_dir=$install/components

# What a build needs, beyond what every Debian system has.
build_packages='autoconf automake libtool make gcc libc6-dev perl openmpi-bin libopenmpi-dev libibverbs-dev
    librdmacm-dev libhwloc-dev libevent-dev libsodium-dev'

# Headers that those of Open MPI include: libopenmpi-dev of 6.0 does not bring them.
pmix_packages=libpmix-dev

# What the verbs laboratory runs, besides a kernel that it downloads itself.
lab_packages='qemu-system-x86 cpio kmod xz-utils iproute2 procps ibverbs-providers ibverbs-utils rdmacm-utils perftest'

# What the laboratory report draws with, and MPI software that it compares with.
report_packages='gnuplot-nox mpich libmpich-dev'

say() { printf '%s: %s\n' "$me" "$*"; }
complain() { printf '%s: %s\n' "$me" "$*" >&2; }
die() {
    complain "$@"
    exit 1
}

# The packages among the arguments that are not installed.
missing_packages() {
    local package
    for package; do
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
        *' installed') ;;
        *) echo "$package" ;;
        esac
    done
}

apt_get() {
    DEBIAN_FRONTEND=noninteractive timeout 1500 apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" \
        </dev/null 9>&-
}

# Package lists that were never fetched, or long ago, lead to packages that are no longer there.
update_lists() {
    [ -z "${lists_updated-}" ] || return 0
    lists_updated=yes
    say "fetching the package lists"
    apt_get update >"$log_dir/apt-update.log" 2>&1 ||
        complain "apt-get update had a problem ($log_dir/apt-update.log); going on with the lists that are there"
}

# Installs what is missing of the arguments. Without the rights to do so, says what to run instead and ends.
require_packages() {
    local missing
    if ! command -v dpkg-query >/dev/null; then
        say "this is not a Debian system; configure will tell if something is missing"
        return 0
    fi
    missing=$(missing_packages "$@" | tr '\n' ' ')
    missing=${missing% }
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        complain "these Debian packages are missing: $missing"
        complain "only root can install them. Run this, then $me again:"
        echo "    sudo apt-get install -y $missing" >&2
        exit 1
    fi
    say "installing Debian packages: $missing"
    update_lists
    # shellcheck disable=SC2086 # one word per package
    if ! apt_get install --no-install-recommends $missing >"$log_dir/apt-install.log" 2>&1; then
        tail -n 20 "$log_dir/apt-install.log" >&2
        die "apt-get could not install them (all of its output: $log_dir/apt-install.log)"
    fi
}

# Installs what can be had of the arguments and goes on without the others: the tests that need them skip.
want_packages() {
    local missing package
    command -v dpkg-query >/dev/null || return 0
    missing=$(missing_packages "$@" | tr '\n' ' ')
    missing=${missing% }
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        say "not root: going on without the packages $missing (some tests will be skipped)"
        return 0
    fi
    say "installing Debian packages for the tests: $missing"
    update_lists
    # shellcheck disable=SC2086
    apt_get install --no-install-recommends $missing >"$log_dir/apt-tests.log" 2>&1 && return 0
    for package in $missing; do
        apt_get install --no-install-recommends "$package" >>"$log_dir/apt-tests.log" 2>&1 ||
            say "the package $package cannot be installed here; the tests that need it will be skipped"
    done
}

# Runs a step with its output in a log, which is shown when the step fails.
logged() {
    local log=$log_dir/$1.log what=$2
    shift 2
    if ! timeout 1200 "$@" >"$log" 2>&1 </dev/null 9>&-; then
        tail -n 40 "$log" >&2
        die "$what failed (all of its output: $log)"
    fi
}

# configure and the Makefile.in files, when there are none or something they are made from is newer.
prepare_configure() {
    local stale=yes
    if [ -x "$top/configure" ]; then
        stale=$(cd "$top" && find . -path './_*' -prune -o -path ./config/gnu -prune -o \
            \( -name configure.ac -o -name Makefile.am -o -name '*.m4' -o -name '*.am' -o -name VERSION \) \
            -newer configure ! -name aclocal.m4 -print | head -n 1)
    fi
    if [ -n "$stale" ]; then
        say "making configure"
        logged autogen "autogen.pl" "$top/autogen.pl"
        touch "$top/configure"
    fi
}

# configure_in DIR OPTION...: configures in DIR unless that has been done with the same options.
configure_in() {
    local dir=$1 want
    shift
    prepare_configure
    mkdir -p "$dir"
    want="$(printf '%q ' "$@")"
    if [ ! -f "$dir/config.status" ] || [ "$(cat "$dir/configured-with" 2>/dev/null)" != "$want" ]; then
        say "configuring in ${dir#"$top"/}"
        logged configure "configure" env -C "$dir" "$top/configure" "$@"
        printf '%s\n' "$want" >"$dir/configured-with"
    fi
}

# The private installation: build in _build, components in _install/components.
build_and_install() {
    configure_in "$build" --prefix="$install" --with-component-dir="$component_dir"
    say "building in ${build#"$top"/}"
    logged make "the build" make -C "$build" -j "$(nproc)"
    say "installing in ${install#"$top"/}"
    logged install "the installation" make -C "$build" install
}

# Only one quickstart or check at a time in one source tree: a second one waits. The lock is descriptor 9, which programs
# started from here do not get, so that one left over cannot keep it.
one_at_a_time() {
    log_dir=$build/log
    if ! mkdir -p "$log_dir" 2>/dev/null || ! [ -w "$log_dir" ] || { [ -e "$build/lock" ] && ! [ -w "$build/lock" ]; }; then
        die "you may not write to $build. If another user (root?) built here, remove _build, _build-* and _install first"
    fi
    exec 9>"$build/lock"
    flock -w 3000 9 || die "another quickstart or check has been running in this tree for too long"
}

# The environment in which Open MPI finds the private installation. Ours comes first, so that it is used even where
# other copies of the components are installed. A directory that does not exist would end Open MPI's search.
use_private_install() {
    [ -d "$component_dir" ] || die "there is no directory $component_dir"
    use_components_of "$component_dir"
    export SPEC_COMPONENT_DIR=$component_dir
}

# Since 5.0 Open MPI has its own components in its libraries, and lets PMIx search that directory too. PMIx does not know
# the word for the system's directory, and reports each file that is none of its own unless told not to.
use_components_of() {
    case $(of_build OMPI_VERSION) in
    4.*) export OMPI_MCA_mca_base_component_path=$1:SYSTEM_DEFAULT ;;
    *) export OMPI_MCA_mca_base_component_path=$1 PMIX_MCA_mca_base_component_show_load_errors=none ;;
    esac
}

# mpirun refuses root unless told twice; since Open MPI 5.0 it is prterun.
allow_root() {
    if [ "$(id -u)" -eq 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
}

# A program of the Open MPI that the build was configured for: of_build MPIRUN
of_build() { sed -n "s/^$1 = //p" "$build/Makefile"; }

# Counting tests. Each outcome is one line; a failure shows what there is to see.
passed=0
failed=0
skipped=0
failures= # a line each
pass() {
    passed=$((passed + 1))
    echo "ok       $1"
}
fail() {
    failed=$((failed + 1))
    failures+=$1${2:+: $2}$'\n'
    echo "FAILED   $1${2:+: $2}"
    [ -z "${3-}" ] || tail -n 15 "$3" | sed 's/^/           | /'
}
skip() {
    skipped=$((skipped + 1))
    echo "skipped  $1: $2"
}
totals() { echo "$passed passed, $failed failed, $skipped skipped"; }
