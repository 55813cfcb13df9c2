use super::*;

fn answer(status_code: u16, message: &str) -> Error {
    Error::DockerResponseServerError { status_code, message: message.to_owned() }
}

#[test]
fn a_taken_name_is_recognised_on_both_engines() {
    let docker = answer(
        409,
        "Conflict. The container name \"/vestal-1\" is already in use by container \"0123\". You \
         have to remove (or rename) that container to be able to reuse that name.",
    );
    assert_eq!(classify(&docker), EngineFault::NameTaken("vestal-1".to_owned()));
    let podman = answer(
        500,
        "container create: creating container storage: the container name \"vestal-1\" is already \
         in use by 0123. You have to remove that container to be able to reuse that name: that \
         name is already in use",
    );
    assert_eq!(classify(&podman), EngineFault::NameTaken("vestal-1".to_owned()));
}

#[test]
fn other_things_in_use_are_no_taken_name() {
    let volume = answer(409, "remove v: volume is in use - [0123]");
    assert_eq!(classify(&volume), EngineFault::Conflict);
    let volume = answer(409, "the volume with name \"v\" is in use - [0123]");
    assert_eq!(classify(&volume), EngineFault::Conflict);
    let port = answer(500, "driver failed: listen tcp 0.0.0.0:80: bind: address already in use");
    assert!(matches!(classify(&port), EngineFault::Refused { status: 500, .. }));
    let quoted = answer(400, "the name \"x\" is already in use");
    assert!(matches!(classify(&quoted), EngineFault::Refused { status: 400, .. }));
}

#[test]
fn refusals_keep_their_meaning() {
    assert_eq!(classify(&answer(404, "No such container: x")), EngineFault::Absent);
    let podman = "container 0123 does not exist in database: no such container";
    assert_eq!(classify(&answer(500, podman)), EngineFault::Absent);
    assert_eq!(classify(&answer(409, "container is paused")), EngineFault::Conflict);
    let podman = "cannot remove container 0123 as it could not be stopped: sending SIGKILL to \
                  container 0123: container state improper: stopped";
    assert_eq!(classify(&answer(500, podman)), EngineFault::Conflict);
    let refused = EngineFault::Refused { status: 400, message: "bad parameter".to_owned() };
    assert_eq!(classify(&answer(400, "bad\n\tparameter\n")), refused);
    let stream = Error::DockerStreamError { error: "no space".to_owned() };
    assert_eq!(
        classify(&stream),
        EngineFault::Refused { status: 0, message: "no space".to_owned() }
    );
}

#[test]
fn an_engine_that_cannot_be_asked_is_unreachable() {
    let io = |kind: ErrorKind| Error::IOError { err: kind.into() };
    for error in [
        Error::RequestTimeoutError,
        Error::SocketNotFoundError("/x".to_owned()),
        io(ErrorKind::ConnectionRefused),
        io(ErrorKind::BrokenPipe),
    ] {
        assert_eq!(classify(&error), EngineFault::Unreachable, "{error}");
    }
    assert_eq!(error_text(&io(ErrorKind::PermissionDenied)), "permission denied");
    assert!(error_text(&io(ErrorKind::ConnectionRefused)).starts_with("no engine listens there"));
    assert!(error_text(&io(ErrorKind::BrokenPipe)).starts_with("the connection failed"));
}

#[test]
fn a_strangers_text_becomes_one_bounded_harmless_line() {
    assert_eq!(one_line("  a\r\n\tb\u{1b}[31mc \u{0}d "), "a b [31mc d");
    assert_eq!(one_line(""), "");
    let long = one_line(&"é ".repeat(10_000));
    assert_eq!(long.chars().count(), MAX_MESSAGE + 1);
    assert!(long.ends_with('…'));
    assert_eq!(error_text(&answer(500, " \n")), "status 500");
}
