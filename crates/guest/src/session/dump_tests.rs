use proptest::prelude::*;

use super::*;
use crate::process::protocol;
use crate::session::saved::SavedVariable;
use crate::session::script::DumpToken;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Finishes a dump as a supervisor does.
fn finished(raw: &[u8], shell: ShellKind, before: &SavedSession) -> Option<Vec<u8>> {
    let file = protocol::memory_file("test", raw).unwrap();
    let token = DumpToken::from_text(TOKEN.to_owned());
    let file = Dump { file, token, shell }.finish(before.clone()).unwrap()?;
    Some(protocol::read_memory_file(file).unwrap())
}

/// Writes sections as a shell does.
fn sections(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut raw = b"noise of a trap".to_vec();
    for (name, text) in parts.iter().chain(&[("end", &b""[..])]) {
        raw.extend_from_slice(format!("\n{TOKEN} {name}\n").as_bytes());
        raw.extend_from_slice(text);
    }
    raw
}

fn env(vars: &[(&str, &str)]) -> Vec<EnvVar> {
    let bytes = |text: &str| ByteVec::from(text.as_bytes().to_vec());
    vars.iter().map(|(name, value)| EnvVar { name: bytes(name), value: bytes(value) }).collect()
}

fn names(session: &SavedSession) -> Vec<String> {
    let name = |variable: &SavedVariable| String::from_utf8_lossy(&variable.name).into_owned();
    session.variables.iter().map(name).collect()
}

#[test]
fn only_the_difference_to_the_environment_is_kept() {
    let variables =
        b"declare -x SAME=\"a b\"\ndeclare -x CHANGED=\"new\"\ndeclare -- plain=\"1\"\n\
        declare -x ATTRIBUTES\ndeclare -ix SAME_BUT_INTEGER=\"1\"\ndeclare -x SECRET=\"s\"\n\
        declare -ir UID=\"0\"\ndeclare -- BASH_VERSION=\"5\"\ndeclare -- IFS=$' \\t\\n'\n\
        declare -- __vestal_status=\"0\"\ndeclare -r BASHOPTS=\"\"\n\
        declare -r SHELLOPTS=\"\"\ndeclare -x PWD=\"/d\"\ndeclare -x VESTAL_JOB=\"j\"\n";
    let raw = sections(&[("statements", variables), ("place", b"0022\n/d\n")]);
    let dump = finished(&raw, ShellKind::Bash, &SavedSession::default()).unwrap();
    let env = env(&[
        ("SAME", "a b"),
        ("CHANGED", "old"),
        ("GONE", "x"),
        ("SAME_BUT_INTEGER", "1"),
        ("PWD", "/elsewhere"),
        ("BASH_FUNC_f%%", "() { :; }"),
    ]);
    let job_env = super::tests::env(&[("SECRET", "s")]);
    let session = SavedSession::from_dump(&dump, &env, &job_env).unwrap();
    assert_eq!(session.exported, super::tests::env(&[("CHANGED", "new")]));
    assert_eq!(names(&session), ["plain", "ATTRIBUTES", "SAME_BUT_INTEGER"]);
    assert_eq!(session.withdrawn, vec![ByteVec::from(b"GONE".to_vec())]);
    assert_eq!(session.cwd, b"/d");
}

/// What bash prints at least.
const LEAST: &[u8] = b"declare -r BASHOPTS=\"\"\ndeclare -r SHELLOPTS=\"\"\ndeclare -- a=\"1\"\n";

#[test]
fn mask_and_directory_are_read_byte_by_byte() {
    let cases = [
        ("0027\n/named\n", Some((Some("0027"), "/named"))),
        ("0027\n/with\nnewline\n\n", Some((Some("0027"), "/with\nnewline\n"))),
        ("0; x\n/d\n", Some((None, "/d"))),
        ("0027\nrelative\n", None),
        ("", None),
    ];
    for (place, wanted) in cases {
        let raw = sections(&[("statements", LEAST), ("place", place.as_bytes())]);
        let dump = finished(&raw, ShellKind::Bash, &SavedSession::default()).unwrap();
        let session = SavedSession::from_dump(&dump, &[], &[]);
        let bytes = |text: &str| text.as_bytes().to_vec();
        let wanted = wanted.map(|(mask, cwd)| (mask.map(|mask| bytes(mask).into()), bytes(cwd)));
        assert_eq!(session.map(|session| (session.umask, session.cwd)), wanted);
    }
}

#[test]
fn a_dump_that_was_cut_short_is_none() {
    let raw = sections(&[("statements", LEAST), ("place", b"0022\n/\n")]);
    let before = SavedSession::default();
    for length in 0..raw.len() {
        assert_eq!(finished(&raw[..length], ShellKind::Bash, &before), None);
    }
    let dump = finished(&raw, ShellKind::Bash, &before).unwrap();
    assert!(SavedSession::from_dump(&dump, &[], &[]).is_some());
    for length in 0..dump.len() {
        assert_eq!(SavedSession::from_dump(&dump[..length], &[], &[]), None);
    }
}

#[test]
fn values_cannot_pass_for_sections() {
    let value = format!("declare -- b=\"x\n{} functions\n\"\n", &TOKEN[..16]);
    let raw =
        sections(&[("statements", &[LEAST, value.as_bytes()].concat()), ("place", b"0022\n/\n")]);
    let dump = finished(&raw, ShellKind::Bash, &SavedSession::default()).unwrap();
    let session = SavedSession::from_dump(&dump, &[], &[]).unwrap();
    assert_eq!(
        (names(&session), session.functions.len()),
        (vec!["a".to_owned(), "b".to_owned()], 0)
    );
}

fn section_name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "statements",
        "exported",
        "readonly",
        "callers",
        "locals",
        "function-names",
        "functions",
        "aliases",
        "options",
        "place",
        "",
    ])
}

/// Text that is nearly what shells print.
fn near_miss() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        &b"declare -"[..],
        b"-x ",
        b"-a ",
        b"f ",
        b"A=",
        b"name",
        b"\"",
        b"'",
        b"$'",
        b"\\",
        b"(",
        b")",
        b"[0]=",
        b"\n",
        b" ",
        b"trap -- ",
        b"EXIT",
        b"SIGINT",
        b"alias ",
        b"set -o ",
        LEAST,
        b"0022\n/\n",
        b"name () \n{ \n",
        b"}\n",
        b"/",
        b"\xff",
        b"\\377",
        b"function ",
        b"local ",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(SavedSession::from_dump(&bytes, &[], &[]), None);
    }

    #[test]
    fn garbage_in_sections_never_panics_and_never_leaks_a_secret(
        parts in prop::collection::vec((section_name(), near_miss()), 0..12),
        bash in any::<bool>(),
    ) {
        let parts: Vec<(&str, &[u8])> = parts.iter().map(|(name, text)| (*name, &text[..])).collect();
        let shell = if bash { ShellKind::Bash } else { ShellKind::Posix };
        let raw = sections(&parts);
        let dump = finished(&raw, shell, &SavedSession::default()).unwrap();
        let job_env = env(&[("name", "secret"), ("A", "secret")]);
        if let Some(session) = SavedSession::from_dump(&dump, &env(&[("nameA", "1")]), &job_env) {
            let passed = session.exported.iter().map(|var| var.name.as_slice());
            let kept = session.variables.iter().map(|variable| variable.name.as_slice());
            prop_assert!(passed.chain(kept).all(|name| name != b"name" && name != b"A"));
        }
    }

    #[test]
    fn a_cut_anywhere_is_an_old_state_or_none(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let raw = sections(&[("statements", LEAST), ("place", b"0022\n/\n")]);
        let mut dump = finished(&raw, ShellKind::Bash, &SavedSession::default()).unwrap();
        let at = at.index(dump.len());
        dump[at] = byte;
        SavedSession::from_dump(&dump, &[], &[]);
    }
}
