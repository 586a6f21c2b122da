# What lull-train says to wrong options and to files that are none, once.
program=$(command -v lull-train) || { echo "skipped: no lull-train"; exit 77; }
# An MPI leaks by itself.
! ldd "$program" | grep -q 'lib[at]san' || { echo "skipped: sanitizers"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
head -c 20000 /dev/zero | tr '\0' x >text
mkdir empty
run lull train -n 2
run lull train -n 2 --data ''
run lull train --bogus 1
run lull train --data
run lull train --data text --layers four
run lull train --data text --ckpt-mode later
run lull train --data text --comm zfp:many
run lull train --data text --resume auto
run lull train --data text --ckpt-every 5
run lull train -n 2 --data text --tp 3
run lull train --data text --heads 3
run lull train -n 2 --data missing
run lull train --data empty
run lull train --data text --resume missing
run lull train --data text --resume empty
run lull train --data text --seq 30000
