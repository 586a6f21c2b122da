# The man pages and what the shell completes, as the build made them.
share=$(dirname "$(command -v lull)")/../share
have() { [ -e "$share/man/$1.1" ]; }
if command -v mandoc >/dev/null; then
    mandoc -T lint -W all "$share/man/lull.1" "$share/man/lull.3"
    ! have lull-train || mandoc -T lint -W all "$share/man/lull-train.1"
fi
# Every command and every option that --help has.
page=$(tr -d '\\' <"$share/man/lull.1")
for command in $(lull --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    grep -q "^.SS \"lull $command" <<<"$page" || echo "no lull $command"
    for option in $(lull help "$command" | sed -n 's/^  \(-[-a-z]*\) .*/\1/p'); do
        grep -qF "fB${option}fR" <<<"$page" || [ "$option" = --help ] ||
            echo "no $option of $command"
    done
done
gzip -dc "$share/man/lull.1.gz" | cmp - "$share/man/lull.1"
head -3 "$share/man/lull.1" | sed 's/"[^"]*"/"..."/g'

# complete WORD...: what is offered for the last word.
. "$share/completions/lull"
compopt() { echo "files"; }
complete_words() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _lull
    [ ${#COMPREPLY[@]} -eq 0 ] || echo "${COMPREPLY[*]}"
}
run complete_words lull pr
run complete_words lull --
run complete_words lull verify --
run complete_words lull verify ''
run complete_words lull verify --step ''
run complete_words lull help e
run complete_words lull codec ''
run complete_words lull codec encode --codec m
run complete_words lull codec encode --dtype ''
run complete_words lull export c -o ''
have lull-train || exit 0
complete_train() {
    case $(complete_words "$@") in *"$want"*) ;; *) echo "no $want: $*" ;; esac
}
want="lazy eager sync" complete_train lull train -n 2 --ckpt-mode ''
want="--ckpt-every" complete_train lull train --ckpt-
want="files" complete_train lull train --data ''
