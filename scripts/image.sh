#!/bin/sh
# Builds the stage $1 of docker/Dockerfile as image $2: with Docker, or with buildah where no Docker engine runs.
set -eu
target=$1
image=$2
base=debian:bookworm-slim

if docker info >/dev/null 2>&1; then
  exec docker build --file docker/Dockerfile --target "$target" --tag "$image" .
fi
if ! command -v buildah >/dev/null 2>&1; then
  echo "make image needs Docker or buildah; Debian has a package of it: apt-get install buildah mmdebstrap" >&2
  exit 1
fi
# These need no privileges and no kernel modules, so they also work inside a container.
export STORAGE_DRIVER="${STORAGE_DRIVER:-vfs}" BUILDAH_ISOLATION="${BUILDAH_ISOLATION:-chroot}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Where no image registry is reached, Debian's own packages make the base image, without the files that "slim" lacks.
make_base() {
  echo "$base cannot be pulled; making it from Debian's packages"
  mmdebstrap --quiet --variant=minbase --include=ca-certificates \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' bookworm "$work/base.tar"
  printf 'FROM scratch\nADD base.tar /\nCMD ["bash"]\n' >"$work/Dockerfile"
  buildah build --quiet --tag "$base" "$work" >/dev/null
}
buildah inspect --type image "$base" >/dev/null 2>&1 || buildah pull --quiet "$base" >/dev/null 2>&1 || make_base

# If pip needs a certificate of this machine, the build gets it as a mount. Nothing of it remains in the image.
set --
if [ -n "${PIP_CERT:-}" ]; then
  printf '[global]\ncert = /usr/local/share/pip-cert.pem\n' >"$work/pip.conf"
  set -- --volume "$PIP_CERT:/usr/local/share/pip-cert.pem:ro" --volume "$work/pip.conf:/etc/pip.conf:ro"
fi
buildah build --layers --pull-never --file docker/Dockerfile --target "$target" --tag "$image" "$@" .
