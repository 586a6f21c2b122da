# The launcher's end is told where nobody else tells it.
command -v lull-train >/dev/null || { echo "skipped: no lull-train"; exit 77; }
for code in 0 1 2 137 139; do
    printf '#!/bin/sh\nexit %s\n' $code >launcher
    chmod +x launcher
    LULL_MPIRUN=./launcher run lull train -n 2 --data x
done
printf '#!/bin/sh\nkill -9 $$\n' >launcher
LULL_MPIRUN=./launcher run lull train
LULL_MPIRUN=./none run lull train
run lull train -n 0
run lull train -n
