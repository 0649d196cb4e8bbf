#!/usr/bin/env bash
# Runs the kernel tests on an emulated 64-bit ARM processor: an arm64 Python of Debian under qemu-user, with the aarch64
# wheels of NumPy, llvmlite and Numba. Needs Debian or Ubuntu and root, which debootstrap asks for. Arguments go to
# pytest; without any it runs a drawn tenth, which takes about an hour, nearly all of it compiling.
set -euo pipefail
cd "$(dirname "$0")/.."
root=${RETROGRAD_ARM_ROOT:-$PWD/.venv/arm64}
release=bookworm python=3.11

command -v debootstrap qemu-aarch64-static >/dev/null ||
    { apt-get update && apt-get install --yes --no-install-recommends debootstrap qemu-user-static; } >/dev/null
if [ ! -e "$root/.complete" ]; then
    echo "== arm64 Python $python of Debian $release in $root"
    rm -rf "$root" && mkdir -p "$root"
    debootstrap --foreign --arch=arm64 --variant=minbase --include=python3,libgomp1,libstdc++6 "$release" "$root" >/dev/null
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    platforms=(manylinux2014_aarch64 manylinux_2_17_aarch64 manylinux_2_27_aarch64 manylinux_2_28_aarch64)
    .venv/bin/python -m pip install --quiet --target "$root/site" --only-binary=:all: --implementation cp \
        --python-version "$python" "${platforms[@]/#/--platform=}" numpy numba pytest pytest-xdist hypothesis einops
    touch "$root/.complete"
fi
# the kernel starts the children of that Python, too, if it knows the format of their files
formats=/proc/sys/fs/binfmt_misc
[ -e "$formats/register" ] || mount -t binfmt_misc none "$formats" || true
if [ -e "$formats/register" ] && [ ! -e "$formats/qemu-aarch64" ]; then
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    printf ':qemu-aarch64:M::%s:%s:%s:F' "$magic" "$mask" "$(command -v qemu-aarch64-static)" > "$formats/register"
fi
export QEMU_LD_PREFIX=$root PYTHONPATH=$PWD/src:$root/site RETROGRAD_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
[ $# -gt 0 ] || set -- tests/kernels tests/conformance --tenth "$(date +%s)"
exec qemu-aarch64-static "$root/usr/bin/python$python" -m pytest -q -n 2 -p no:cacheprovider "$@"
