run lull --version
lull info >text || echo failed
head -1 text
grep -c '^  zfp:RATE' text
LULL_ISA=portable lull info | grep -E 'run on|isa '
lull info --json | jq -e '.version and (.codecs | length > 3) and
    (.settings[0].source == "default") and .devices[0].name == "host"'
LULL_ISA=mmx lull info | grep 'isa '
# Full disks are told.
lull info >/dev/full
echo "[exit $?]"
# How a directory would be written to; nothing is left there.
mkdir place
lull info place | grep -c '^  yes\|^  no'
lull info --json place | jq -e '.storage | (.writer | length > 0) and
    (.free_bytes > 0) and (.reserves | type == "boolean")'
LULL_IO=threads lull info --json place | jq -r '.storage | .writer, .why' |
    head -2
ls -A place
run lull info missing
