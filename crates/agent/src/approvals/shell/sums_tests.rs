use super::testing::unasked;
use super::*;

fn path_context() -> PathContext {
    PathContext { dir: Some("~/project".to_owned()), ..PathContext::default() }
}

#[test]
fn what_is_taken_for_a_number_or_a_name_runs_nothing_unasked() {
    let commands = [
        "printf -v 'a[$(id)]' x",
        "printf -v'a[$(id)]' x",
        "[[ -v 'a[$(id)]' ]]",
        "[[ -R 'a[$(id)]' ]]",
        "[[ -v $x ]]",
        "test -v 'a[$(id)]'",
        "[ -v 'a[$(id)]' ]",
        "[ $x ]",
        "let 'a[$(id)]=1'",
        "let \"$x\"",
        "read 'a[$(id)]'",
        "read -a 'a[$(id)]'",
        "mapfile 'a[$(id)]'",
        "unset 'a[$(id)]'",
        "declare -i n",
        "declare -i n='a[$(id)]'",
        "declare 'a[$(id)]=1'",
        "typeset -n r='a[$(id)]'",
        "local -n r=x",
        "export 'a[$(id)]=1'",
        "wait -p 'a[$(id)]'",
        "getopts ab 'a[$(id)]'",
        "[[ 'a[$(id)]' -eq 1 ]]",
        "[[ 1 -lt 'a[$(id)]' ]]",
        "x='a[$(id)]'; echo $((x))",
        "x='a[$(id)]'; echo $[x]",
        "x='a[$(id)]'; ((x))",
        "x='a[$(id)]'; [[ x -eq 1 ]]",
        "x='a[$(id)]'; [[ $x -eq 1 ]]",
        "x='a[$(id)]'; echo ${b[x]}",
        "x='a[$(id)]'; echo ${b:x}",
        "x='a[$(id)]'; echo \"${b:-$((x))}\"",
        "x='a[$(id)]'; b[x]=1",
        "x='a[$(id)]'; for ((i=x; i<3; i++)); do :; done",
        "x='a[$(id)]'; cat <<E\n$((x))\nE",
        "x=y; y='a[$(id)]'; echo $((x))",
        "x=$(cat f); echo $((x + 1))",
        "read x < f; ((x > 1))",
        ": ${x:='a[$(id)]'}; echo $((x))",
        "echo 'a[$(id)]'; echo $((_))",
        "x='a[$(id)]' bash -c 'echo $((x))'",
        "x='$(id)'; echo ${x@P}",
        "x='a[$(id)]'; echo ${!x}",
        "echo $((a[$(id)]))",
        "echo $(( $(cat f) ))",
    ];
    assert_eq!(unasked(&path_context(), &commands), [""; 0]);
}

#[test]
fn sums_of_numbers_are_not_asked_about() {
    let commands = [
        "echo $((1 + 2 * 3))",
        "i=1; echo $((i + 1))",
        "i=0; i=$((i + 1)); ((i > 0)) && echo $i",
        "for i in 1 2 3; do echo $((i * 2)); done",
        "for ((i=0; i<3; i++)); do echo $i; done",
        "for i in $(seq 1 5); do echo $((i + 1)); done",
        "for i in {1..5}; do echo $((i + 1)); done",
        "n=$(ls | wc -l); echo $((n + 1))",
        "n=$(wc -l < f); [[ $n -gt 3 ]] && echo many",
        "[[ $? -eq 0 ]] && echo ok",
        "[[ ${#a[@]} -gt 0 ]] && echo \"${a[0]} ${a[@]:1}\"",
        "[[ -v HOME && -n $x && $x == a* ]]",
        "[ $x -gt 3 ] && echo big",
        "test -f x -a -n \"$y\"",
        "while IFS= read -r line; do echo \"$line\"; done < f",
        "s=$(date +%s); make; e=$(date +%s); echo $((e - s))",
        "declare -A m; m[a]=1; echo ${!m[@]}",
        "printf '%d\\n' 3",
        "printf -v x '%s' y",
    ];
    assert_eq!(unasked(&path_context(), &commands), commands);
}

#[test]
fn a_value_of_an_earlier_command_is_not_taken_for_a_number() {
    let first = examine("read x < f", &path_context());
    assert_eq!(first.findings, []);
    let later = PathContext { suspects: first.suspects, ..path_context() };
    assert_eq!(unasked(&later, &["echo $((x))", "[[ $x -gt 1 ]]"]), [""; 0]);
    assert_eq!(unasked(&later, &["echo $((y))"]), ["echo $((y))"]);
}
