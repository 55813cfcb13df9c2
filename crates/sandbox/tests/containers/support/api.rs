//! The engine's API, asked directly: what the tests see is what the engine says
//! and not what the code under test makes of it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::Value;

/// An engine to ask.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    socket: PathBuf,
}

/// What an engine answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Api {
    /// Returns the engine at an address.
    pub(crate) fn at(host: &str) -> Self {
        let path = host.strip_prefix("unix://").expect("test engines have sockets");
        Self { socket: path.into() }
    }

    /// Asks, whatever the answer; nothing when the engine is not there.
    pub(crate) fn try_ask(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        let body = body.map(Value::to_string).unwrap_or_default();
        // With this version of HTTP the answer ends where the connection does.
        let head = format!(
            "{method} /v1.41{path} HTTP/1.0\r\nHost: engine\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
        let status = std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()?;
        let body = serde_json::from_slice(&answer[end + 4..]).unwrap_or(Value::Null);
        Some(Answer { status, body })
    }

    /// Asks, whatever the answer.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.try_ask(method, path, body).expect("the engine answers")
    }

    /// Asks for something that there must be.
    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, None);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Asks for something to be done, which must succeed.
    pub(crate) fn post(&self, path: &str) {
        let answer = self.ask("POST", path, None);
        assert!((200..305).contains(&answer.status), "{path}: {}", answer.body);
    }

    /// Returns what the engine says of a container; nothing if there is none.
    pub(crate) fn inspect(&self, container: &str) -> Option<Value> {
        let answer = self.ask("GET", &format!("/containers/{container}/json"), None);
        (answer.status == 200).then_some(answer.body)
    }

    /// Returns the names of the images in a repository.
    pub(crate) fn images_in(&self, repository: &str) -> Vec<String> {
        let listed = loop {
            let answer = self.ask("GET", "/images/json", None);
            // Podman fails over an image that goes while it is listed.
            if answer.status == 200 || !answer.body.to_string().contains("image not known") {
                assert_eq!(answer.status, 200, "{}", answer.body);
                break answer.body;
            }
        };
        let listed = listed.as_array().cloned().unwrap_or_default();
        let names = listed.iter().filter_map(|image| image["RepoTags"].as_array());
        let names = names.flatten().map(|name| name.as_str().unwrap().to_owned());
        names.filter(|name| name.rsplit_once(':').unwrap().0 == repository).collect()
    }

    /// Returns what a container that has ended printed, without what frames it.
    pub(crate) fn logs(&self, container: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).expect("the engine answers");
        let path = format!("/v1.41/containers/{container}/logs?stdout=1&stderr=1");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: engine\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let mut rest = &answer[end + 4..];
        let mut text = Vec::new();
        while let Some((frame, after)) = rest.split_at_checked(8) {
            let length = u32::from_be_bytes(frame[4..].try_into().unwrap()) as usize;
            text.extend_from_slice(&after[..length]);
            rest = &after[length..];
        }
        String::from_utf8(text).unwrap()
    }

    /// Removes a container, whatever it does.
    pub(crate) fn remove(&self, container: &str) {
        self.try_ask("DELETE", &format!("/containers/{container}?force=true&v=true"), None);
    }

    /// Returns the containers with a label.
    pub(crate) fn containers_with(&self, label: &str) -> Vec<Value> {
        let filters = encode(&serde_json::json!({ "label": [label] }).to_string());
        let listed = self.get(&format!("/containers/json?all=true&filters={filters}"));
        listed.as_array().cloned().unwrap_or_default()
    }

    /// Returns the names of the volumes with a label.
    pub(crate) fn volumes_with(&self, label: &str) -> Vec<String> {
        let filters = encode(&serde_json::json!({ "label": [label] }).to_string());
        let listed = self.get(&format!("/volumes?filters={filters}"));
        let listed = listed["Volumes"].as_array().cloned().unwrap_or_default();
        listed.iter().map(|volume| volume["Name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Removes the containers and volumes with a label that no world knows of.
#[derive(Debug)]
pub(crate) struct Remove {
    pub(crate) api: Api,
    pub(crate) label: String,
}

impl Drop for Remove {
    fn drop(&mut self) {
        for container in self.api.containers_with(&self.label) {
            self.api.remove(container["Id"].as_str().unwrap());
        }
        for volume in self.api.volumes_with(&self.label) {
            self.api.try_ask("DELETE", &format!("/volumes/{volume}?force=true"), None);
        }
    }
}

/// Returns a text as it may stand in an address.
pub(crate) fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            use std::fmt::Write as _;
            write!(encoded, "%{byte:02X}").unwrap();
        }
        encoded
    })
}
