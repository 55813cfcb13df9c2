//! An image that is being fetched, from an engine that takes for ever.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use crate::shell::ShellTerminal;
use crate::support::{ProgramFixture, RunningProgram};
use rustix::process::Signal;

const IMAGE: &str = "registry.example/tool:1";

/// Answers as an engine that does not have the image and gets half of it.
fn start_engine(fixture: &ProgramFixture) -> String {
    let socket = fixture.user().join("engine.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    // Ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    format!("unix://{}", socket.display())
}

fn serve(stream: UnixStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(path) = request(&mut reader) {
        let answer = |status: &str, body: &str| {
            format!(
                "HTTP/1.1 {status}\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let answer = if path.contains("/images/create") {
            return send_half(writer);
        } else if path.contains("/images/") {
            answer("404 Not Found", r#"{"message":"no such image"}"#)
        } else if path.contains("/containers/json") {
            answer("200 OK", "[]")
        } else {
            answer("200 OK", "{}")
        };
        // The interrupted process does not listen any more.
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Sends what a pull says, and half of a layer over and over.
fn send_half(mut writer: UnixStream) {
    let mut send = |text: &str| writer.write_all(text.as_bytes()).is_ok();
    let chunk = |line: &str| format!("{:x}\r\n{line}\r\n\r\n", line.len() + 2);
    send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    send(&chunk(r#"{"status":"Pulling fs layer","id":"a"}"#));
    send(&chunk(r#"{"status":"Already exists","id":"b"}"#));
    let half =
        r#"{"status":"Downloading","id":"a","progressDetail":{"current":1048576,"total":2097152}}"#;
    // The interrupted process does not listen any more.
    while send(&chunk(half)) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Reads one request and returns its path; nothing at the end.
fn request(reader: &mut impl std::io::BufRead) -> Option<String> {
    let mut path = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return path;
        }
        if path.is_none() {
            path = line.split(' ').nth(1).map(str::to_owned);
        }
    }
}

#[test]
fn a_pull_is_shown_as_it_goes_on_and_ends_cleanly_with_ctrl_c() {
    let fixture = ProgramFixture::new();
    let address = start_engine(&fixture);
    let variables = [("DOCKER_HOST", address.as_str()), ("TERMINAL_ENV", "docker")];
    let mut person =
        ShellTerminal::start_with(&fixture, &["run", "--image", IMAGE, "echo ran"], &variables);
    person.sees(&format!("pulling image {IMAGE} …"));
    person.sees("pulling ████████████░░░░░░░░░░░░ 1.0 MiB of 2.0 MiB, 1 of 2 layers");
    person.types("\x03");
    let (code, rest) = person.leaves();
    assert_eq!(code, 130);
    assert!(rest.ends_with("\r\x1b[2K"), "the line is cleared: {rest:?}");
}

#[test]
fn a_pull_that_no_terminal_shows_is_reported_in_a_line() {
    let fixture = ProgramFixture::automatic();
    let address = start_engine(&fixture);
    let mut command = fixture.command(["run", "--image", IMAGE, "echo ran"]);
    command.env("DOCKER_HOST", address);
    // What it says first tells that it is waiting for the image.
    let (reader, writer) = std::io::pipe().unwrap();
    command.stderr(writer);
    let started = RunningProgram::start(command);
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).unwrap();
    assert_eq!(line, format!("note: pulling image {IMAGE}\n"));
    started.signal(Signal::TERM);
    assert_eq!(started.end().0, 143);
}
