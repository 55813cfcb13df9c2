//! What a session keeps in shells that are not bash.

mod supervised;

use std::path::Path;

use supervised::{Session, var};
use vestal_guest::process::WaitStatus;

/// Runs a test in every shell that is here. dash and busybox are what images
/// without bash have.
fn in_each(test: impl Fn(Session, &str)) {
    let shells = [("/usr/bin/dash", "dash"), ("/bin/busybox", "busybox")];
    let here: Vec<_> = shells.into_iter().filter(|(path, _)| Path::new(path).exists()).collect();
    assert!(!here.is_empty(), "the tests need dash or busybox-static");
    for (path, name) in here {
        test(Session::without_bash(Path::new(path)), name);
    }
}

#[test]
fn variables_directory_mask_aliases_and_options_are_kept() {
    in_each(|mut session, shell| {
        session.ok("a='b  c'; export e=1; readonly r=2; alias hi='echo hello'; umask 027; set -f; mkdir d; cd d");
        let out = session.ok("hi; echo \"$a\" $r *; env | grep ^e=; umask; pwd");
        let cwd = session.path().join("d");
        assert_eq!(out, format!("hello\nb  c 2 *\ne=1\n0027\n{}\n", cwd.display()), "{shell}");
        assert_eq!(session.ok("cd - >/dev/null; pwd"), format!("{}\n", session.path().display()));
    });
}

#[test]
fn any_bytes_in_values_are_kept() {
    in_each(|mut session, shell| {
        let mut every: Vec<u8> = (1..=255).collect();
        every.extend_from_slice(b"'\"$(echo no)`echo no`\\\n\n'; echo no; \n}\nEOF\n'\\''");
        session.job_env = vec![var("EVERY", &every)];
        session.ok("kept=$EVERY.; export sent=$EVERY.");
        session.job_env.clear();
        for name in ["kept", "sent"] {
            let ran = session.saves(format!("printf %s \"${name}\""), 0);
            assert_eq!(ran.stdout, [&every[..], b"."].concat(), "{shell}: {name}");
        }
    });
}

#[test]
fn state_is_kept_after_failures_that_end_the_shell() {
    in_each(|_, shell| {
        for text in
            ["a=1; exit 3", "a=1; set -e; false", "a=1; set -u; echo $nosuch", "a=1\nif; then"]
        {
            let mut session = Session::without_bash(&shell_path(shell));
            let ran = session.sh(text);
            assert!(ran.state.is_some(), "{shell}: {text}: {ran:?}");
            session.sh("set +eu");
            assert_eq!(session.ok("echo $a"), "1\n", "{shell}: {text}");
        }
    });
}

#[test]
fn a_killed_or_replaced_shell_leaves_the_state_as_it_was() {
    in_each(|mut session, shell| {
        session.ok("a=1");
        for text in ["a=2; exec true", "a=2; kill -9 $$", "a=2; trap 'echo mine' EXIT"] {
            let ran = session.sh(text);
            assert!(ran.state.is_none(), "{shell}: {text}");
            assert_eq!(session.ok("echo $a"), "1\n", "{shell}: {text}");
        }
        assert_eq!(session.sh("kill -9 $$").status, Some(WaitStatus::Signaled(9)));
    });
}

#[test]
fn the_environment_of_the_caller_counts_anew_each_time() {
    in_each(|mut session, shell| {
        session.env.push(var("REMOVED", "x"));
        session.ok("export MINE=1; unset REMOVED; HOME=/mine");
        session.job_env = vec![var("TOKEN", "secret")];
        session.env.push(var("NEW", "n"));
        let out = session.ok("echo $MINE ${REMOVED-removed} $HOME $NEW $TOKEN");
        assert_eq!(out, "1 removed /mine n secret\n", "{shell}");
        session.job_env.clear();
        assert_eq!(session.ok("echo ${TOKEN-none}"), "none\n", "{shell}");
    });
}

#[test]
fn long_text_and_arguments_run() {
    in_each(|mut session, shell| {
        let text = format!("a=1\n{}echo $a", format!(": {}\n", "x".repeat(1000)).repeat(300));
        assert_eq!(session.ok(&text), "1\n", "{shell}");
        assert_eq!(session.argv(&["printf", "%s|", "a b", "$x", ""]).out(), "a b|$x||", "{shell}");
        assert_eq!(session.ok("echo $a"), "1\n", "{shell}");
        assert_eq!(session.sh("nosuchcommand").code(), 127, "{shell}");
    });
}

#[test]
fn a_session_that_lost_its_bash_goes_on_without_what_only_bash_knows() {
    let mut session = Session::new();
    session.ok("list=(1 2); f() { :; }; mkdir d; cd d; unset BASE");
    let mut other = Session::without_bash(&shell_path("dash"));
    other.saved = session.saved.clone();
    let out = other.ok("pwd; echo ${BASE-removed}");
    assert_eq!(out, format!("{}\nremoved\n", session.path().join("d").display()));
}

fn shell_path(name: &str) -> std::path::PathBuf {
    let path = if name == "dash" { "/usr/bin/dash" } else { "/bin/busybox" };
    path.into()
}
