//! Containers that end with the process that made them.

use rustix::process::Signal;

use crate::support::ProgramFixture;

const OPT_OUT: [&str; 2] = ["--set", "terminal.persist_across_processes=false"];

#[test]
fn nothing_is_left_when_the_command_ends_but_the_files() {
    let fixture = ProgramFixture::docker();
    let run = |text: &str| fixture.vestal(OPT_OUT.into_iter().chain(["run", text])).exits(0);
    let first = run("echo kept > note; hostname").text();
    assert_eq!(fixture.containers(), [""; 0]);
    let second = run("cat note; hostname").text();
    assert!(second.starts_with("kept\n") && !second.ends_with(&first), "{second}");
    assert_eq!(fixture.containers(), [""; 0]);
    fixture.vestal(["rm", "-y", "--files", "default"]).exits(0);
    assert!(!fixture.home().join("sandboxes/default").exists());
}

#[test]
fn nothing_is_left_when_the_command_is_interrupted() {
    let fixture = ProgramFixture::docker();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut started =
            fixture.start(OPT_OUT.into_iter().chain(["run", "echo begun; sleep 1000"]));
        assert_eq!(started.line(), "begun");
        assert_eq!(fixture.containers().len(), 1);
        started.signal(signal);
        assert_eq!(started.end().0, code);
        assert_eq!(fixture.containers(), [""; 0]);
    }
}

#[test]
fn nothing_is_left_when_it_is_interrupted_while_it_starts() {
    let fixture = ProgramFixture::docker();
    // The first one finds out what has to be known of the image, in a container too.
    for _ in 0..2 {
        let started = fixture.start(OPT_OUT.into_iter().chain(["run", "true"]));
        while fixture.containers().is_empty() {
            std::thread::yield_now();
        }
        started.signal(Signal::TERM);
        let (code, printed) = started.end();
        // It may have ended before it was asked to.
        assert!(code == 143 || code == 0, "{code}: {printed}");
        assert_eq!(fixture.containers(), [""; 0], "{printed}");
    }
}
