//! The container engine that tests are given, asked without Vestal.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::{Value, json};
use vestal_config::Environment;

use crate::support::PATIENCE;

/// Names the Docker engine.
const DOCKER: &str = "VESTAL_TEST_DOCKER_HOST";

/// Names the Podman engine.
const PODMAN: &str = "VESTAL_TEST_PODMAN_HOST";

/// An engine, reached over its socket.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    address: String,
    socket: PathBuf,
}

impl Engine {
    /// Returns the Docker engine given to the tests, which has the test images.
    pub(crate) fn given() -> Self {
        Self::named_by(DOCKER, "docker")
    }

    /// Returns the Podman engine given to the tests, which has them too.
    pub(crate) fn podman() -> Self {
        Self::named_by(PODMAN, "podman")
    }

    fn named_by(variable: &str, kind: &str) -> Self {
        let environment = Environment::capture();
        let Some(address) = environment.get(variable).and_then(OsStr::to_str) else {
            panic!(
                "{variable} names no engine. `scripts/test -p vestal-cli test` starts one; or start \
                 one with `scripts/lib/engine {kind} start DIRECTORY` and set {variable} to the \
                 address it prints"
            )
        };
        let socket = address.strip_prefix("unix://").unwrap_or_else(|| {
            panic!("{variable} is {address}; the tests speak unix:// addresses only")
        });
        Self { socket: socket.into(), address: address.to_owned() }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the names of the containers that carry a label.
    pub(crate) fn containers(&self, label: &str) -> Vec<String> {
        let listed = self.list("/containers/json?all=1", label);
        let listed = listed.as_array().into_iter().flatten();
        let names = listed.filter_map(|container| container["Names"][0].as_str());
        names.map(|name| name.trim_start_matches('/').to_owned()).collect()
    }

    /// Returns what the engine says of a container.
    pub(crate) fn inspect(&self, container: &str) -> Value {
        let (status, body) = self.ask("GET", &format!("/containers/{container}/json"), None);
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Makes a container that is none of Vestal's; it is not started.
    pub(crate) fn make_foreign(&self, name: &str, label: &str) {
        let (label, value) = label.split_once('=').unwrap();
        let body = json!({
            "Image": crate::support::BASE,
            "Cmd": ["true"],
            "Labels": { label: value },
        });
        let (status, said) =
            self.ask("POST", &format!("/containers/create?name={name}"), Some(&body));
        assert_eq!(status, 201, "{said}");
    }

    /// Removes every container and volume that carries a label.
    pub(crate) fn clear(&self, label: &str) {
        for container in self.containers(label) {
            self.ask("DELETE", &format!("/containers/{container}?force=1&v=1"), None);
        }
        let volumes = self.list("/volumes?", label);
        for volume in volumes["Volumes"].as_array().into_iter().flatten() {
            let name = volume["Name"].as_str().unwrap();
            self.ask("DELETE", &format!("/volumes/{name}?force=1"), None);
        }
    }

    fn list(&self, path: &str, label: &str) -> Value {
        let filters = json!({ "label": [label] }).to_string();
        let encoded = filters.bytes().fold(String::new(), |mut encoded, byte| {
            write!(encoded, "%{byte:02x}").unwrap();
            encoded
        });
        let separator = if path.ends_with('?') { "" } else { "&" };
        let (status, listed) =
            self.ask("GET", &format!("{path}{separator}filters={encoded}"), None);
        assert_eq!(status, 200, "{listed}");
        listed
    }

    /// Makes one call. An answer in HTTP/1.0 ends with its connection.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.map(Value::to_string).unwrap_or_default();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }
}
