//! A command in a session looks to itself as under a plain `bash -c`.

mod supervised;

use supervised::{Session, plain_bash};
use vestal_guest::session::SavedSession;

/// Runs text both ways, in a new session and in one with state.
fn alike(text: &str) {
    let mut session = Session::new();
    let path = session.path();
    let plain = plain_bash(text, &path);
    let state = "f() { echo f; }; v=1; list=(a b); alias hi=true; shopt -s histappend";
    for before in [":", state] {
        session.saved = SavedSession::default();
        session.ok(before);
        let ran = session.sh(text);
        let ran = (ran.out(), ran.err(), i32::from(ran.code()));
        assert_eq!(ran, plain, "{before}: {text}");
    }
}

#[test]
fn special_parameters_are_those_of_plain_bash() {
    alike("echo \"$?|$_|$0|$#|$LINENO|$-|$SHLVL|$BASH_SUBSHELL\"");
    alike(
        "echo $(( $$ == BASHPID )) ${#FUNCNAME[@]} ${#BASH_SOURCE[@]} \"$BASH_EXECUTION_STRING\"",
    );
    alike("false; echo $?; true; echo ${PIPESTATUS[@]}");
    alike("echo \"$PWD|${OLDPWD-none}|$HOME|$IFS|$PS4|$OPTIND\"");
    alike("env | grep -v '^_=' | sort");
}

#[test]
fn messages_are_those_of_plain_bash() {
    alike("nosuchcommand");
    alike("echo a\nnosuchcommand\n");
    alike("if");
    alike("echo 'open");
    alike("f() { nosuchcommand; }; f");
    alike("set -u; echo $nosuch");
    alike("f() { echo $nosuch; }; set -u; f");
    alike("cd /no/such/directory");
    alike("readonly r=1; r=2; echo no");
    alike("echo $((1/0)); echo on");
    alike("exit nonsense");
    alike("set -e; (exit 42); echo no");
    alike("return 3; echo on");
    alike("break; echo on");
}

#[test]
fn behaviour_is_that_of_plain_bash() {
    alike("set -x; f() { echo a; }; f; x=1");
    alike("trap 'echo usr1' USR1; kill -USR1 $$; echo on");
    alike("cat <<EOF\n$HOME\nEOF");
    alike("x=$(exit 3); echo $?; read -r y </dev/null; echo $?");
    alike("sleep 0.01 & wait $!; echo $?; jobs");
    alike("exec 3>&1; echo three >&3");
    alike("(trap 'echo sub' EXIT; exit 2); echo $?");
    alike("printf '%s\\n' {a..c} *; set -f; echo *");
    alike("ulimit -c; umask; type cd; echo \"${BASH_VERSINFO[0]}\"");
    alike("bash -c 'echo $0 $SHLVL; trap'; sh -c 'echo $0'");
}
