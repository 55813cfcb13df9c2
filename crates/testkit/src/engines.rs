//! Container engines, asked directly: what the tests see is what an engine says, not what the code
//! under test makes of it.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::wait::TEST_TIMEOUT;

/// The image that containers are made from unless a test says otherwise.
pub const BASE_IMAGE: &str = "vestal-test/base:latest";

/// Returns what `scripts/test` tells the tests by a variable.
#[expect(clippy::disallowed_methods, reason = "what a test is given is not a setting")]
pub fn given(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "{variable} is not set. `scripts/test test` starts engines and sets it; or start one \
             with `scripts/lib/engine KIND start DIRECTORY` and set it to the address it prints"
        )
    })
}

/// A container engine, reached over its socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineApi {
    address: String,
    socket: PathBuf,
}

/// What an engine answers.
#[derive(Debug)]
pub struct EngineAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// The body; null where it is not JSON.
    pub body: Value,
}

impl EngineApi {
    /// Returns the Docker engine given to the tests.
    pub fn docker() -> Self {
        Self::at(&given("VESTAL_TEST_DOCKER_HOST"))
    }

    /// Returns the Podman engine of root given to the tests.
    pub fn podman() -> Self {
        Self::at(&given("VESTAL_TEST_PODMAN_HOST"))
    }

    /// Returns the Podman engine of an ordinary user given to the tests.
    pub fn rootless() -> Self {
        Self::at(&given("VESTAL_TEST_PODMAN_ROOTLESS_HOST"))
    }

    /// Returns the engine at an address.
    pub fn at(address: &str) -> Self {
        let Some(socket) = address.strip_prefix("unix://") else {
            panic!("{address}: the engines of tests have unix:// addresses")
        };
        Self { address: address.to_owned(), socket: socket.into() }
    }

    /// Returns the address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Asks, whatever the answer; returns nothing when the engine is not there.
    pub fn try_ask(&self, method: &str, path: &str, body: Option<&Value>) -> Option<EngineAnswer> {
        let (status, body) = self.exchange(method, path, body)?;
        Some(EngineAnswer { status, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
    }

    /// Asks, whatever the answer.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> EngineAnswer {
        let answer = self.try_ask(method, path, body);
        answer.unwrap_or_else(|| panic!("{} does not answer", self.address))
    }

    /// Asks for something that must exist.
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, None);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Asks for something to be done, which must succeed.
    #[track_caller]
    pub fn post(&self, path: &str) {
        let answer = self.ask("POST", path, None);
        assert!((200..305).contains(&answer.status), "{path}: {}", answer.body);
    }

    /// Returns what the engine knows of a container; nothing if there is none.
    #[track_caller]
    pub fn inspect(&self, container: &str) -> Option<Value> {
        let answer = self.ask("GET", &format!("/containers/{container}/json"), None);
        (answer.status == 200).then_some(answer.body)
    }

    /// Returns the containers with a label as the engine lists them, whatever they do.
    #[track_caller]
    pub fn containers_with(&self, label: &str) -> Vec<Value> {
        let listed = self.get(&format!("/containers/json?all=true&filters={}", labelled(label)));
        listed.as_array().cloned().unwrap_or_default()
    }

    /// Returns the names of the containers with a label.
    #[track_caller]
    pub fn names_with(&self, label: &str) -> Vec<String> {
        let containers = self.containers_with(label);
        let names = containers.iter().map(|container| container["Names"][0].as_str().unwrap());
        names.map(|name| name.trim_start_matches('/').to_owned()).collect()
    }

    /// Returns the names of the volumes with a label.
    #[track_caller]
    pub fn volumes_with(&self, label: &str) -> Vec<String> {
        let listed = self.get(&format!("/volumes?filters={}", labelled(label)));
        let listed = listed["Volumes"].as_array().cloned().unwrap_or_default();
        listed.iter().map(|volume| volume["Name"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the names of the images in a repository.
    #[track_caller]
    pub fn images_in(&self, repository: &str) -> Vec<String> {
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

    /// Returns what a container that has ended printed, without the frames around it.
    #[track_caller]
    pub fn logs(&self, container: &str) -> String {
        let path = format!("/containers/{container}/logs?stdout=1&stderr=1");
        let (_, body) = self.exchange("GET", &path, None).unwrap();
        let mut rest = body.as_slice();
        let mut text = Vec::new();
        while let Some((frame, after)) = rest.split_at_checked(8) {
            let length = u32::from_be_bytes(frame[4..].try_into().unwrap()) as usize;
            text.extend_from_slice(&after[..length]);
            rest = &after[length..];
        }
        String::from_utf8(text).unwrap()
    }

    /// Removes a container, whatever it does.
    pub fn remove(&self, container: &str) {
        self.try_ask("DELETE", &format!("/containers/{container}?force=true&v=true"), None);
    }

    /// Removes a volume.
    pub fn remove_volume(&self, volume: &str) {
        self.try_ask("DELETE", &format!("/volumes/{volume}?force=true"), None);
    }

    /// Removes all containers and volumes with a label.
    pub fn clear(&self, label: &str) {
        for container in self.containers_with(label) {
            self.remove(container["Id"].as_str().unwrap());
        }
        for volume in self.volumes_with(label) {
            self.remove_volume(&volume);
        }
    }

    /// Makes one call. An answer in HTTP/1.0 ends with its connection.
    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Vec<u8>)> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(TEST_TIMEOUT)).ok()?;
        let body = body.map(Value::to_string).unwrap_or_default();
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
        Some((status, answer.split_off(end + 4)))
    }
}

/// Removes what has a label from an engine when it is dropped.
#[derive(Debug)]
pub struct ClearOnDrop {
    /// The engine.
    pub engine: EngineApi,
    /// The label, `name=value`.
    pub label: String,
}

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.engine.clear(&self.label);
    }
}

fn labelled(label: &str) -> String {
    encode(&json!({ "label": [label] }).to_string())
}

/// Returns a text as it may stand in an address.
pub fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").unwrap();
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Answers one call like an engine, and returns what was asked.
    fn answering(listener: &UnixListener, answer: &str) -> String {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = vec![0; 4096];
        let length = stream.read(&mut asked).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8_lossy(&asked[..length]).into_owned()
    }

    #[test]
    fn containers_are_asked_for_by_label() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let engine = EngineApi::at(&format!("unix://{}", socket.display()));
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                answering(&listener, "HTTP/1.0 200 OK\r\n\r\n[{\"Id\":\"1\",\"Names\":[\"/it\"]}]")
            });
            assert_eq!(engine.names_with("home=1"), ["it"]);
            let asked = asked.join().unwrap();
            let filter = "filters=%7B%22label%22%3A%5B%22home%3D1%22%5D%7D";
            assert!(asked.starts_with("GET /v1.41/containers/json?all=true&"), "{asked}");
            assert!(asked.contains(filter), "{asked}");
        });
        drop(listener);
        assert!(engine.try_ask("GET", "/_ping", None).is_none());
    }
}
