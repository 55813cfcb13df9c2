//! The container engine of a world, asked directly: what it says, and not what
//! the code under test makes of it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

/// A container engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Containers {
    address: String,
}

impl Containers {
    /// Returns the engine at this address.
    pub(crate) fn at(address: String) -> Self {
        Self { address }
    }

    /// Returns the address.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns all that the engine knows of a container.
    pub(crate) fn inspect(&self, id: &str) -> Value {
        self.get(&format!("/containers/{id}/json"))
    }

    /// Returns the containers of a home, whatever they are for and do, as the
    /// engine lists them.
    pub(super) fn of_home(&self, home: &str) -> Vec<Value> {
        let listed = self.get(&format!("/containers/json?all=true&filters={}", labelled(home)));
        listed.as_array().unwrap().clone()
    }

    /// Returns the names of a home's volumes.
    pub(super) fn volumes_of_home(&self, home: &str) -> Vec<String> {
        let listed = self.get(&format!("/volumes?filters={}", labelled(home)));
        let listed = listed["Volumes"].as_array().cloned().unwrap_or_default();
        listed.iter().map(|volume| volume["Name"].as_str().unwrap().to_owned()).collect()
    }

    /// Removes all that a home has on the engine. Whoever calls this has more
    /// to tell than what goes wrong here.
    pub(super) fn clear(&self, home: &str) {
        for container in self.of_home(home) {
            let id = container["Id"].as_str().unwrap();
            self.ask("DELETE", &format!("/containers/{id}?force=true&v=true"));
        }
        for volume in self.volumes_of_home(home) {
            self.ask("DELETE", &format!("/volumes/{volume}?force=true"));
        }
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    fn ask(&self, method: &str, path: &str) -> (u16, Value) {
        let socket = self.address.strip_prefix("unix://").expect("test engines have sockets");
        let mut stream = UnixStream::connect(socket).unwrap();
        // With this version of HTTP an answer ends where its connection does.
        let head = format!("{method} /v1.41{path} HTTP/1.0\r\nHost: engine\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
        (status, serde_json::from_slice(&answer[end + 4..]).unwrap_or_default())
    }
}

/// Returns the filter for what carries the label of a home, whose id needs no
/// escapes in an address.
fn labelled(home: &str) -> String {
    let filter = json!({ "label": [format!("vestal-home={home}")] }).to_string();
    filter.replace('"', "%22").replace('{', "%7B").replace('}', "%7D").replace('=', "%3D")
}
