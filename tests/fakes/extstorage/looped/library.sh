# A provider of external storage whose volumes are files below EXTP_DIR, attached as loop devices.
# A file .fault.SCRIPT there is run by that script first, which makes it misbehave.
set -eu
: "${EXTP_DIR:?the parameter dir is missing}"
script=$(basename "$0")
volume=$EXTP_DIR/${VOL_NAME:-none}
echo "$script ${VOL_NAME:-} size=${VOL_SIZE:-} new=${VOL_NEW_SIZE:-} meta=${VOL_METADATA:-} cname=${VOL_CNAME:-}" \
    "exclusive=${VOL_OPEN_EXCLUSIVE:-} snapshot=${VOL_SNAPSHOT_NAME:-}/${VOL_SNAPSHOT_SIZE:-}" >>"$EXTP_DIR/.calls"
if [ -e "$EXTP_DIR/.fault.$script" ]; then . "$EXTP_DIR/.fault.$script"; fi

held=$EXTP_DIR/.at.$(uname -n).${VOL_NAME:-none}

# The loop device of the volume on this node; the nodes of a test may share a kernel.
device() { [ ! -e "$held" ] || losetup -n -O NAME "$(cat "$held")"; }
