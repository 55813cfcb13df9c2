//! The engine, asked directly over its socket: what it says, and its own way to
//! run a command, which ours is measured beside.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Result;

/// An engine to ask.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    socket: PathBuf,
}

/// How much is read at once, as the buffers of ordinary clients hold.
const BUFFER: usize = 64 << 10;

/// Before each part of a command's output: whose it is and how long.
const FRAME_HEAD: usize = 8;

/// The first byte of a part of standard output.
const STDOUT: u8 = 1;

impl Api {
    pub(crate) fn at(host: &str) -> Result<Self> {
        let path = host.strip_prefix("unix://").ok_or_else(|| format!("{host} is not a socket"))?;
        Ok(Self { socket: path.into() })
    }

    /// Returns what the numbers depend on.
    pub(super) fn version(&self) -> Result<String> {
        let version = self.ask("GET", "/version", None)?;
        let driver = self.ask("GET", "/info", None)?;
        let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
        Ok(format!("{}, {}", text(&version["Version"]), text(&driver["Driver"])))
    }

    /// Returns the container of an instance.
    pub(super) fn container(&self, instance: &str) -> Result<String> {
        let found = self.labelled(&format!("vestal-instance={instance}"))?;
        match found.as_slice() {
            [only] => Ok(only.clone()),
            _ => Err(format!("instance {instance} has {} containers", found.len()).into()),
        }
    }

    /// Returns the process id of a container's first process.
    pub(super) fn first_process(&self, container: &str) -> Result<u32> {
        let seen = self.ask("GET", &format!("/containers/{container}/json"), None)?;
        let pid = seen["State"]["Pid"].as_u64().filter(|pid| *pid != 0);
        Ok(u32::try_from(pid.ok_or("the container does not run")?)?)
    }

    /// Runs a command as `docker exec` does, waits for its end, and returns how
    /// much it wrote to standard output.
    pub(super) fn exec(&self, container: &str, command: &[&str]) -> Result<u64> {
        let wanted = json!({ "AttachStdout": true, "AttachStderr": true, "Cmd": command });
        let path = format!("/containers/{container}/exec");
        let made = self.ask("POST", &path, Some(&wanted))?;
        let id = made["Id"].as_str().ok_or("the engine names no exec")?;
        let received = self.output_of(id)?;
        // The output may end a moment before the engine knows of the end.
        let seen = loop {
            let seen = self.ask("GET", &format!("/exec/{id}/json"), None)?;
            if seen["Running"] == false {
                break seen;
            }
        };
        match seen["ExitCode"].as_i64() {
            Some(0) => Ok(received),
            other => Err(format!("{command:?} ended with {other:?}").into()),
        }
    }

    /// Starts what was prepared and reads its output to the end.
    fn output_of(&self, exec: &str) -> Result<u64> {
        let body = json!({ "Detach": false, "Tty": false }).to_string();
        let mut stream = UnixStream::connect(&self.socket)?;
        write!(
            stream,
            "POST /exec/{exec}/start HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\n\
             Upgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut reader = BufReader::with_capacity(BUFFER, stream);
        let head = read_head(&mut reader)?;
        if !matches!(status(&head), Some(101 | 200)) {
            return Err(format!("the engine does not start it: {head}").into());
        }
        let mut received = 0;
        while let Some((kind, length)) = next_part(&mut reader)? {
            skip(&mut reader, length)?;
            if kind == STDOUT {
                received += length;
            }
        }
        Ok(received)
    }

    /// Removes what there is of a home, and returns how many containers that
    /// were.
    pub(crate) fn remove_all_of(&self, home: &Path) -> Result<usize> {
        let Ok(text) = fs::read(home.join("home.json")) else {
            // Nothing was made yet.
            return Ok(0);
        };
        let described: Value = serde_json::from_slice(&text)?;
        let id = described["id"].as_str().ok_or("the home has no id")?;
        let label = format!("vestal-home={id}");
        let containers = self.labelled(&label)?;
        for container in &containers {
            self.ask("DELETE", &format!("/containers/{container}?force=true&v=true"), None)?;
        }
        let volumes = self.ask("GET", &format!("/volumes?{}", filter(&label)), None)?;
        for volume in volumes["Volumes"].as_array().into_iter().flatten() {
            let name = volume["Name"].as_str().ok_or("a volume has no name")?;
            self.ask("DELETE", &format!("/volumes/{name}?force=true"), None)?;
        }
        Ok(containers.len())
    }

    /// Returns the containers with a label.
    fn labelled(&self, label: &str) -> Result<Vec<String>> {
        let path = format!("/containers/json?all=true&{}", filter(label));
        let listed = self.ask("GET", &path, None)?;
        let listed = listed.as_array().ok_or("the engine lists nothing")?;
        Ok(listed.iter().filter_map(|one| Some(one["Id"].as_str()?.to_owned())).collect())
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut stream = UnixStream::connect(&self.socket)?;
        let body = body.map(Value::to_string).unwrap_or_default();
        // With this version of HTTP the answer ends where the connection does.
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: engine\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut reader = BufReader::new(stream);
        let head = read_head(&mut reader)?;
        let mut answer = Vec::new();
        reader.read_to_end(&mut answer)?;
        match status(&head) {
            Some(200..=299) => Ok(serde_json::from_slice(&answer).unwrap_or(Value::Null)),
            _ => Err(format!("{method} {path}: {}", String::from_utf8_lossy(&answer)).into()),
        }
    }
}

/// Returns the query for what carries a label.
fn filter(label: &str) -> String {
    let filters = json!({ "label": [label] }).to_string();
    let encoded = filters.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    format!("filters={}", encoded.collect::<String>())
}

fn read_head(reader: &mut impl BufRead) -> Result<String> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Err("the engine hung up".into());
        }
        if head[before..].trim_end().is_empty() {
            return Ok(head);
        }
    }
}

fn status(head: &str) -> Option<u16> {
    head.split(' ').nth(1)?.parse().ok()
}

/// Returns whose the next part of the output is and how long; nothing at its end.
fn next_part(reader: &mut impl BufRead) -> Result<Option<(u8, u64)>> {
    let mut head = [0; FRAME_HEAD];
    match reader.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let [kind, _, _, _, a, b, c, d] = head;
    Ok(Some((kind, u64::from(u32::from_be_bytes([a, b, c, d])))))
}

/// Takes so many bytes out of the reader's buffer, copying nothing.
fn skip(reader: &mut impl BufRead, mut left: u64) -> Result<()> {
    while left > 0 {
        let there = reader.fill_buf()?.len();
        if there == 0 {
            return Err("the output ends in the middle".into());
        }
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(there);
        reader.consume(taken);
        left -= taken as u64;
    }
    Ok(())
}
