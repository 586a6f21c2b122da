# Help goes to stdout with status 0, a wrong use to stderr with status 2.
# The list of commands grows: only its frame is compared.
run lull 2>&1 | grep -v '^  '
run lull --help | grep -v '^  '
lull --help | grep -cE '^  (ls|show|verify|export|diff|prune|info) '
run lull help verify
run lull help nothing
run lull nothing
run lull ls
run lull ls one two
run lull ls --bogus one
run lull show --step
run lull show --step x one
run lull show --step=18446744073709551616 one
run lull show --json=yes one
run lull verify --all --step 3 one
run lull export one
run lull prune one
run lull prune one --keep-last 0
run lull diff one
for command in ls show verify export diff prune info; do
    lull $command --help >help || echo "$command --help fails"
    head -1 help
done
