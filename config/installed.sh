#!/bin/sh
# installed.sh COMPONENTDIR MANDIR DOCDIR LIVE: what to say at the end of 'make install': where what was installed is found. Changes
# nothing.

components=$1 man=$2 doc=$3 live=$4

# found_by_man DIR: does man search there by itself?
found_by_man() { case :$(manpath -q 2>/dev/null || echo /usr/local/share/man:/usr/share/man): in *:"$1":*) ;; *) false ;; esac; }

echo
echo "Installed: the components in $components"
if found_by_man "$man"; then
    echo "  manual pages     man mca_pml_spec (mca_btl_ibx, mca_rcache_lazy, mca_mpool_freq)"
else
    echo "  manual pages     man -M $man mca_pml_spec (mca_btl_ibx, mca_rcache_lazy, mca_mpool_freq);"
    echo "                   for good: export MANPATH=$man: (the colon keeps the others)"
fi
echo "  guide            $doc/docs/user/guide.md"
echo "  messages         $doc/docs/user/troubleshooting.md"
echo "  live view        mpirun -x LD_PRELOAD=$live --mca pml spec PROGRAM"
