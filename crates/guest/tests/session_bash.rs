//! What a session in bash keeps from one command to the next.

mod supervised;

use supervised::{Session, var};
use vestal_guest::process::{LaunchCommand, WaitStatus};
use vestal_guest::session::SavedSession;

#[test]
fn functions_aliases_and_plain_variables_reach_the_next_command() {
    let mut session = Session::new();
    session.ok("greet() { echo \"hello $1\"; }; alias hi='greet'; plain='a b'");
    assert_eq!(session.ok("hi there; echo \"$plain\""), "hello there\na b\n");
    // They also survive a command that does not touch them.
    session.ok(":");
    assert_eq!(session.ok("hi you; echo \"$plain\""), "hello you\na b\n");
}

#[test]
fn state_is_kept_after_exit_with_a_code() {
    let mut session = Session::new();
    session.saves("export A=1; exit 3", 3);
    assert_eq!(session.ok("echo $A; env | grep ^A="), "1\nA=1\n");
}

#[test]
fn state_is_kept_after_failures_that_end_the_shell() {
    let cases = [
        ("a=1; set -e; false; a=2", 1),
        ("a=1; set -u; echo $nosuch; a=2", 127),
        ("a=1; set -euo pipefail; false | true; a=2", 1),
        ("a=1\nif; then\na=2", 2),
        ("a=1; ${a!}; :", 1),
    ];
    for (text, code) in cases {
        let mut session = Session::new();
        session.saves(text, code);
        session.sh("set +eu +o pipefail");
        assert_eq!(session.ok("echo $a"), "1\n", "{text}");
    }
}

#[test]
fn a_failing_set_u_within_a_function_keeps_state() {
    let mut session = Session::new();
    session.saves("f() { a=1; echo $nosuch; }; set -u; f", 127);
    assert_eq!(session.ok("echo $a"), "1\n");
}

#[test]
fn arrays_and_attributes_are_kept() {
    let mut session = Session::new();
    session.ok("list=(a 'b c' ')' $'d\\ne'); declare -A map=([k]='v w' [\"x y\"]='z]'); \
         readonly fixed=1; declare -i number=4; declare -u loud=abc; declare -n ref=list; \
         declare -ar rolist=(1 2); declare -x exported; unset_one=1; unset unset_one");
    let out = session.ok(
        "echo \"${#list[@]} ${list[1]} ${list[2]} ${list[3]}\"; echo \"${map[k]} ${map[x y]}\"; \
         number+=3; echo $number; loud=xyz; echo $loud; echo \"${ref[0]}\"; \
         declare -p fixed rolist exported; echo \"${unset_one-gone}\"",
    );
    assert_eq!(
        out,
        "4 b c ) d\ne\nv w z]\n7\nXYZ\na\ndeclare -r fixed=\"1\"\n\
         declare -ar rolist=([0]=\"1\" [1]=\"2\")\ndeclare -x exported\ngone\n"
    );
    assert_eq!(session.sh("fixed=2").code(), 1);
}

#[test]
fn arrays_of_every_form_are_as_they_were() {
    let mut session = Session::new();
    let show = "declare -p words gaps late empty unset one ints sent IFS";
    let made = session.ok(format!(
        "IFS=ao; words=('*' '?' '~' '{{a,b}}' '[3]=x' '' ' ' 'k=v' '$HOME' \"it's\" 'a)' $'\\t\\n'); \
         gaps=([2]=c [7]=h); late=([1]=b [0]=a); empty=(); declare -a unset; one=(1); \
         declare -ai ints=(1 2); declare -ax sent=(x y); {show}"
    ));
    for _ in 0..2 {
        assert_eq!(session.ok(show), made);
    }
}

#[test]
fn any_bytes_in_values_are_kept() {
    let mut session = Session::new();
    let mut every: Vec<u8> = (1..=255).collect();
    every.extend_from_slice(b"'\"$(echo no)`echo no`\\\n\n'); echo no; (\n}\nEOF\ntrap \n");
    session.job_env = vec![var("EVERY", &every)];
    session.ok("kept=$EVERY.; export sent=$EVERY.; list=(\"$EVERY.\")");
    session.job_env.clear();
    for name in ["kept", "sent", "list"] {
        let ran = session.saves(format!("printf %s \"${{{name}}}\""), 0);
        assert_eq!(ran.stdout, [&every[..], b"."].concat(), "{name}");
    }
}

#[test]
fn two_hundred_functions_with_heredocs_and_odd_names_are_kept() {
    let mut session = Session::new();
    let text: Vec<String> = (0..200)
        .map(|index| {
            format!("function f-{index}.x {{ cat <<EOF\n}}\nother () \n{{ \n{index} $1\nEOF\n}}\n")
        })
        .collect();
    let text = text.concat();
    session.ok(format!("{text}function time {{ builtin echo tick; }}; declare -fx f-3.x; f-4() {{ cat; }} <<< text; export -f f-4; readonly -f f-4"));
    assert_eq!(
        session.ok("f-199.x a; f-7.x b"),
        "}\nother () \n{ \n199 a\n}\nother () \n{ \n7 b\n"
    );
    assert_eq!(
        session.ok("declare -F | grep -c f-; declare -F | grep ' f-3.x\\| f-4$'; \\time; f-4"),
        "201\ndeclare -fx f-3.x\ndeclare -frx f-4\ntick\ntext\n"
    );
    assert_eq!(session.ok("bash -c 'f-3.x z'"), "}\nother () \n{ \n3 z\n");
}

#[test]
fn functions_with_extended_patterns_are_kept_without_the_option() {
    let mut session = Session::new();
    session.ok("shopt -s extglob\nmatch() { case $1 in @(a|b)) echo yes;; !(c)) echo no;; esac; }\nshopt -u extglob");
    assert_eq!(
        session.ok("shopt -q extglob || echo off; shopt -s extglob; match a; match d"),
        "off\nyes\nno\n"
    );
}

#[test]
fn shell_options_and_the_mask_are_kept() {
    let mut session = Session::new();
    session.ok("shopt -s nullglob dotglob extglob; shopt -u cmdhist; umask 027");
    let out = session.ok("shopt nullglob dotglob extglob; shopt cmdhist; umask; echo *(nosuch)");
    assert_eq!(
        out,
        "nullglob       \ton\ndotglob        \ton\nextglob        \ton\ncmdhist        \toff\n0027\n\n"
    );
    session.ok("set -o pipefail; set -f -C +B");
    assert_eq!(session.ok("echo $-; false | true; echo $? {a,b} *"), "fhCc\n1 {a,b} *\n");
}

#[test]
fn errexit_and_nounset_hold_in_the_next_command_only_for_its_text() {
    let mut session = Session::new();
    session.ok("set -eu");
    let ran = session.saves("echo before; false; echo after", 1);
    assert_eq!(ran.out(), "before\n");
    let ran = session.saves("echo $nosuch", 1);
    assert!(ran.err().contains("nosuch: unbound variable"));
    session.saves("set +eu", 0);
    assert_eq!(session.ok("false; echo ${nosuch}after"), "after\n");
}

#[test]
fn tracing_shows_nothing_of_ours() {
    let mut session = Session::new();
    let ran = session.saves("set -x; a=1", 0);
    assert_eq!(ran.err(), "+ a=1\n");
    let ran = session.saves("b=2", 0);
    assert_eq!(ran.err(), "+ b=2\n");
    let ran = session.saves("trap 'echo bye' EXIT", 0);
    assert_eq!(ran.err(), "+ trap 'echo bye' EXIT\n+ echo bye\n");
    let ran = session.saves("set +x", 0);
    assert_eq!(ran.err(), "+ set +x\n");
    assert_eq!(session.ok("echo $a $b"), "1 2\n");
}

#[test]
fn verbose_noclobber_noglob_and_posix_mode_do_not_lose_state() {
    for option in ["-v", "-C", "-f", "-o posix", "-a", "-T", "-E", "-m", "-k"] {
        let mut session = Session::new();
        session.saves(format!("set {option}; a=1"), 0);
        session.saves("b=2; f() { echo f; }", 0);
        let ran = session.saves("echo $a $b; f", 0);
        assert_eq!(ran.out(), "1 2\nf\n", "{option}");
        session.saves(option.replacen('-', "set +", 1), 0);
        assert_eq!(session.ok("echo $a $b"), "1 2\n", "{option}");
    }
}

#[test]
fn functions_and_aliases_named_like_builtins_do_not_lose_state() {
    for name in [
        "declare", "trap", "alias", "printf", "exit", "set", "echo", "shopt", "pwd", "local",
        "unset", "eval", "return",
    ] {
        let mut session = Session::new();
        session.saves(format!("a=1; list=(x y); {name}() {{ command echo mine; }}"), 0);
        session.saves(format!("b=2; alias {name}='nosuchcommand'"), 0);
        let ran = session.saves("\\command echo $a $b ${list[1]}", 0);
        assert_eq!((ran.out().as_str(), ran.err().as_str()), ("1 2 y\n", ""), "{name}");
        let ran = session.saves(format!("\\{name}"), 0);
        assert_eq!(ran.out(), "mine\n", "{name}");
    }
}

#[test]
fn odd_circumstances_do_not_lose_state() {
    let cases = [
        "IFS=x; a=1",
        "IFS=; a=1",
        "LANG=C LC_ALL=C; export LC_ALL; a=1",
        "PATH=/nowhere; a=1",
        "exec >&- 2>&- <&-; a=1",
        "exec 2>&-; a=1",
        "mkdir gone; cd gone; rmdir ../gone; a=1",
        "PWD=elsewhere; a=1",
        "unset PWD OLDPWD HOME; a=1",
        "set -- x y z; a=1; shift",
        "f() { a=1; exit; }; f",
        "a=1; { sleep 1000 & } 2>/dev/null; kill $!",
        "a=1; (exit 4)",
        "a=1; :(){ echo colon; }; unset -f :",
        "trap 'a=1' USR1; kill -USR1 $$",
        "exec 3>file 4<&0; a=1",
        "alias builtin=nosuchcommand; a=1",
        "declare -r __vestal_status=7; a=1",
    ];
    for text in cases {
        let mut session = Session::new();
        let ran = session.sh(text);
        assert!(ran.state.is_some(), "{text}: {ran:?}");
        let home = session.path().into_os_string().into_encoded_bytes();
        session.saved.cwd = home;
        let ran = session.sh("\\builtin echo \"$a\"");
        assert_eq!(ran.out(), "1\n", "{text}: {ran:?}");
    }
}

#[test]
fn the_directory_is_kept_as_it_was_named() {
    let mut session = Session::new();
    let home = session.path();
    session.ok("mkdir real 'odd\nname '; ln -s real link; cd link");
    assert_eq!(session.saved.cwd, home.join("link").into_os_string().into_encoded_bytes());
    assert_eq!(
        session.ok("pwd; cd ..; cd 'odd\nname '"),
        format!("{}\n", home.join("link").display())
    );
    assert_eq!(session.saved.cwd, home.join("odd\nname ").into_os_string().into_encoded_bytes());
    assert_eq!(session.ok("cd - >/dev/null; pwd"), format!("{}\n", home.display()));
    assert_eq!(
        session.ok("cd - >/dev/null; pwd -P"),
        format!("{}\n", home.join("odd\nname ").display())
    );
}

#[test]
fn a_users_exit_trap_runs_once_with_the_right_code_and_state_is_kept() {
    let cases = [
        ("trap 'echo bye $?; a=2' EXIT; a=1; exit 5", "bye 5\n", 5, "2"),
        ("trap 'echo bye $?' 0; a=1; false", "bye 1\n", 1, "1"),
        ("trap -- 'echo bye' SIGEXIT; a=1", "bye\n", 0, "1"),
        ("trap 'echo bye $?' exit; set -e; a=1; false", "bye 1\n", 1, "1"),
        ("trap 'echo bye; exit 9' EXIT; a=1; exit 5", "bye\n", 9, "1"),
        ("trap 'echo bye; set -e; false; echo no' EXIT; a=1", "bye\n", 1, "1"),
        ("trap 'echo bye' EXIT; a=1; trap - EXIT", "", 0, "1"),
        ("trap 'echo bye' EXIT; a=1; trap 0", "", 0, "1"),
        ("trap 'echo bye' EXIT; a=1; trap EXIT", "", 0, "1"),
        ("trap '' EXIT; a=1", "", 0, "1"),
        ("trap 'echo one' EXIT; trap 'echo two' EXIT INT; a=1", "two\n", 0, "1"),
        ("f() { local x=7; trap 'echo $x$a' EXIT; a=1; exit 2; }; f", "71\n", 2, "1"),
        ("(trap 'echo inner' EXIT); a=1", "inner\n", 0, "1"),
        ("trap 'echo outer' EXIT; (trap 'echo inner' EXIT); a=1", "inner\nouter\n", 0, "1"),
        ("a=1; trap \"echo 'it''s' # done\" EXIT", "its\n", 0, "1"),
    ];
    for (text, out, code, a) in cases {
        let mut session = Session::new();
        let ran = session.saves(text, code);
        assert_eq!((ran.out().as_str(), ran.err().as_str()), (out, ""), "{text}");
        assert_eq!(session.saves("echo $a", 0).out(), format!("{a}\n"), "{text}");
    }
}

#[test]
fn traps_are_listed_as_the_user_set_them() {
    let mut session = Session::new();
    assert_eq!(session.ok("trap -p; trap"), "");
    let text = "trap 'echo \"it'\\''s\"' EXIT; trap 'echo int' INT; x=$(trap -p EXIT); echo \"$x\"; trap -p; trap - EXIT; trap -p";
    let exit = "trap -- 'echo \"it'\\''s\"' EXIT\n";
    let int = "trap -- 'echo int' SIGINT\n";
    assert_eq!(session.ok(text), format!("{exit}{exit}{int}{int}"));
    // Traps of signals are part of the state.
    assert_eq!(session.ok("trap; kill -INT $$; echo on"), format!("{int}int\non\n"));
    session.ok("trap - INT");
    assert_eq!(session.ok("trap"), "");
}

#[test]
fn error_traps_can_be_set_and_removed() {
    let mut session = Session::new();
    assert_eq!(session.ok("trap 'echo E' ERR; false; :"), "E\n");
    assert_eq!(session.ok("false; trap - ERR; false; :"), "E\n");
    assert_eq!(session.ok("false; :"), "");
    assert_eq!(
        session
            .ok("trap 'echo D' DEBUG; echo 1; trap - DEBUG; echo 2")
            .lines()
            .filter(|line| *line != "D")
            .collect::<Vec<_>>(),
        ["1", "2"]
    );
    assert_eq!(session.ok("echo 3"), "3\n");
}

#[test]
fn an_unknown_signal_is_the_builtins_to_refuse() {
    let mut session = Session::new();
    let ran = session.saves("trap 'x' NOSUCH", 1);
    assert!(ran.err().contains("NOSUCH: invalid signal specification"), "{}", ran.err());
}

#[test]
fn variables_local_to_a_function_that_exits_stay_local() {
    let mut session = Session::new();
    session.ok("x=global");
    session.saves("g() { local -r x=outer; local y=1; f; }; f() { local z=2; a=1; exit 3; }; g", 3);
    assert_eq!(session.ok("echo $x ${y-no} ${z-no} $a; x=changed"), "global no no 1\n");
    assert_eq!(session.ok("echo $x"), "changed\n");
}

#[test]
fn a_killed_or_replaced_shell_leaves_the_state_as_it_was() {
    let mut session = Session::new();
    session.ok("a=1");
    for text in [
        "a=2; exec true",
        "a=2; exec /no/such/program",
        "a=2; kill -9 $$",
        "a=2; kill -TERM $$",
        "a=2; kill -HUP $$; sleep 1",
        "set -n; a=2",
    ] {
        let ran = session.sh(text);
        assert!(ran.state.is_none() || text.contains("-n"), "{text}");
        assert_eq!(session.ok("echo $a"), "1\n", "{text}");
    }
    assert_eq!(session.sh("kill -TERM $$").status, Some(WaitStatus::Signaled(15)));
    assert_eq!(session.sh("exec bash -c 'exit 4'").status, Some(WaitStatus::Exited(4)));
}

#[test]
fn the_environment_of_the_caller_counts_anew_each_time() {
    let mut session = Session::new();
    session.env.push(var("REMOVED", "x"));
    session.env.push(var("HIDDEN", "x"));
    session.ok("echo $BASE; export MINE=1; export HOME=/mine; unset REMOVED; declare +x HIDDEN");
    session.env.retain(|var| var.name.as_slice() != b"BASE");
    session.env.push(var("BASE", "changed by the caller"));
    session.env.push(var("NEW", "x"));
    let out = session.ok("echo $BASE $MINE $HOME ${REMOVED-removed} $NEW $HIDDEN; env | grep -c '^HIDDEN=\\|^REMOVED='; true");
    assert_eq!(out, "changed by the caller 1 /mine removed x x\n0\n");
    session.ok("export REMOVED=again");
    assert_eq!(session.ok("env | grep ^REMOVED"), "REMOVED=again\n");
}

#[test]
fn environment_for_one_job_is_never_saved_and_always_wins() {
    let mut session = Session::new();
    session.ok("export TOKEN=own");
    session.job_env = vec![var("TOKEN", "secret-1"), var("VESTAL_JOB", "j1")];
    assert_eq!(
        session.ok("echo $TOKEN $VESTAL_JOB; TOKEN=$TOKEN-changed; f() { :; }"),
        "secret-1 j1\n"
    );
    let file = session.directory.path().join("session");
    session.saved.store(&file).unwrap();
    let stored = std::fs::read(&file).unwrap();
    for secret in [&b"secret-1"[..], b"VESTAL_JOB"] {
        assert!(!stored.windows(secret.len()).any(|window| window == secret));
    }
    // What the session had of its own is covered, not lost.
    session.job_env.clear();
    assert_eq!(session.ok("echo $TOKEN ${VESTAL_JOB-none}"), "own none\n");
}

#[test]
fn a_callers_bash_env_is_read_and_kept() {
    let mut session = Session::new();
    let file = session.path().join("env.sh");
    std::fs::write(&file, "from_file=1\n").unwrap();
    session.env.push(var("BASH_ENV", file.to_str().unwrap()));
    session.env.push(var("POSIXLY_CORRECT", "1"));
    session.env.push(var("SHELLOPTS", "noglob:xtrace"));
    let ran = session.saves("echo $from_file $BASH_ENV $POSIXLY_CORRECT; shopt -o posix", 0);
    assert_eq!(
        (ran.out(), ran.err()),
        (format!("1 {} 1\nposix          \ton\n", file.display()), String::new())
    );
}

#[test]
fn arguments_run_functions_builtins_and_programs() {
    let mut session = Session::new();
    session.ok("greet() { echo \"hello $1\"; }; mkdir d");
    assert_eq!(session.argv(&["greet", "a  b"]).out(), "hello a  b\n");
    session.argv(&["cd", "d"]);
    assert_eq!(session.saved.cwd, session.path().join("d").into_os_string().into_encoded_bytes());
    assert_eq!(session.argv(&["printf", "%s|", "a b", "$x", ""]).out(), "a b|$x||");
    let ran = session.argv(&["nosuchprogram"]);
    assert_eq!(
        (ran.code(), ran.err().as_str()),
        (127, "bash: line 1: nosuchprogram: command not found\n")
    );
}

#[test]
fn text_of_any_length_runs() {
    let mut session = Session::new();
    let filler = format!(": {}\n", "x".repeat(1000));
    let text = format!("a=1\n{}echo $a; exit 3", filler.repeat(3000));
    let ran = session.saves(&text, 3);
    assert_eq!((ran.out().as_str(), ran.err().as_str()), ("1\n", ""));
    assert_eq!(session.ok("echo $a"), "1\n");
}

#[test]
fn a_background_job_starts_from_the_state_and_saves_nothing() {
    let mut session = Session::new();
    session.ok("a=1; f() { echo f; }");
    let mut launch =
        session.launch(LaunchCommand::Shell(b"f; echo $a; a=2; trap 'echo bye' EXIT".to_vec()));
    launch.save = false;
    let ran = session.supervised.run(&launch);
    assert_eq!((ran.out().as_str(), ran.state.is_none()), ("f\n1\nbye\n", true));
}

#[test]
fn nothing_of_ours_is_open_or_in_the_environment_of_programs() {
    let mut session = Session::new();
    session.ok("a=1; f() { :; }");
    assert_eq!(
        session.ok(
            "env | grep -i '^[^=]*vestal\\|^BASH_ENV\\|/proc/'; ls /proc/self/fd | tr '\\n' ' '"
        ),
        "0 1 2 3 "
    );
    assert_eq!(session.ok("set | grep -c ^__vestal_; true").trim(), "0");
    assert_eq!(session.ok("compgen -A function"), "f\ntrap\n");
}

#[test]
fn a_stored_session_is_the_same_after_loading() {
    let mut session = Session::new();
    session.ok("f() { echo f; }; list=(1 $'\\xff\\n'); alias x=y; set -o pipefail; shopt -s nullglob; trap : INT");
    let file = session.directory.path().join("session");
    session.saved.store(&file).unwrap();
    assert_eq!(SavedSession::load(&file).unwrap(), Some(session.saved.clone()));
}

#[test]
fn more_than_an_environment_can_hold_is_kept() {
    let mut session = Session::new();
    session.ok("export BIG=$(printf '%0200000d' 1); for i in {1..40}; do export V$i=$(printf '%020000d' $i); done");
    session.ok("eval \"big() { x='$(printf '%0200000d' 1)'; echo \\${#x}; }\"; unset BIG2");
    assert_eq!(
        session.ok("echo ${#BIG} ${#V1} ${#V40}; big; [[ ${V40@a} == x ]] && echo exported"),
        "200000 20000 20000\n200000\nexported\n"
    );
}

#[test]
fn a_library_path_for_programs_does_not_reach_the_shell_itself() {
    let mut session = Session::new();
    session.ok("export LD_LIBRARY_PATH=/nowhere LD_PRELOAD_UNUSED=1 IFS=x PS1=mine");
    let own = "tr '\\0' '\\n' < /proc/$$/environ | grep -c '^LD_\\|^IFS\\|^PS1'; true";
    assert_eq!(session.ok(own), "0\n");
    let passed = session.ok("env | grep '^LD_LIB\\|^PS1\\|^IFS' | sort");
    assert_eq!(passed, "IFS=x\nLD_LIBRARY_PATH=/nowhere\nPS1=mine\n");
}

#[test]
fn messages_from_a_kept_function_name_no_file_of_ours() {
    let mut session = Session::new();
    let first = session.saves("f() { nosuchcommand; }; f; true", 0);
    let later = session.saves("f; true", 0);
    assert_eq!(later.err(), first.err());
}
