#!/bin/sh
# Puts Debian's kernel, and modules that Debian does not build, into the root file system $1. mmdebstrap runs this text at
# the end, with its own rights and its own apt. Nothing of the kernel is configured: we make our own initial file system.
# From the environment: KERNEL (flavour), KERNEL_DROP (folders of modules), KERNEL_MODULES (C files of its source),
# KERNEL_CC (compiler), KERNEL_CROSS (prefix of binutils).
set -eu
root=$1
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
work="$root/var/cache/nightjar"
mkdir -p "$work"
cd "$work"

# The package of the flavour only names the newest version's.
image=$(apt-cache depends "linux-image-$KERNEL" | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p')
release=${image#linux-image-}
apt-get -qq download "$image" 2>/dev/null
dpkg-deb --fsys-tarfile ./"$image"_*.deb |
    tar --extract --directory "$root" --keep-directory-symlink --exclude './usr/share/*'
for folder in $KERNEL_DROP; do
    rm -rf "$root/lib/modules/$release/kernel/$folder"
done
dpkg-deb --showformat '${Package}\t${Version}\t${Architecture}\n' --show ./"$image"_*.deb > "$root/boot/kernel.tsv"

if [ -n "$KERNEL_MODULES" ]; then
    common="linux-headers-${release%-"$KERNEL"}-common"
    source=$(apt-cache depends linux-source | sed -n 's/^ *Depends: \(linux-source-[^ ]*\)$/\1/p')
    apt-get -qq download "linux-headers-$release" "$common" "$source" 2>/dev/null
    for deb in linux-headers-*.deb; do
        dpkg-deb --extract "$deb" headers
    done
    dpkg-deb --fsys-tarfile "$source"_*.deb | tar --extract --wildcards "./usr/src/$source.tar.xz"
    mkdir -p modules headers/usr/lib
    # Without an identity of the build: it would come from the name of this folder, which is another one each time.
    # The headers look for each other, and for the build programs, where they would be installed.
    ln -s /usr/lib/linux-kbuild-* headers/usr/lib/
    sed -i "s|/usr/src|$work/headers/usr/src|" "headers/usr/src/linux-headers-$release/Makefile"
    for module in $KERNEL_MODULES; do
        tar --extract --file "usr/src/$source.tar.xz" --occurrence=1 --to-stdout "$source/$module" \
            > "modules/$(basename "$module")"
        echo "obj-m += $(basename "$module" .c).o" >> modules/Makefile
    done
    make --silent -C "headers/usr/src/linux-headers-$release" M="$work/modules" CC="$KERNEL_CC" \
        CROSS_COMPILE="$KERNEL_CROSS" LDFLAGS_MODULE=--build-id=none modules > make.log 2>&1 || { cat make.log >&2; exit 1; }
    mkdir -p "$root/lib/modules/$release/extra"
    for module in modules/*.ko; do
        "${KERNEL_CROSS}strip" --strip-debug "$module"
        cp "$module" "$root/lib/modules/$release/extra/"
    done
fi
cd /
rm -rf "$work"
# Its own, so that lists of modules and their reader are of one version.
chroot "$root" depmod "$release"
