//! A namespace of a Kubernetes cluster, which `scripts/lib/kubernetes` starts: asked and disturbed
//! without the code under test.

use std::collections::HashMap;
use std::io::{Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::engines::given;
use crate::wait_until;

/// The variable that names the program which makes clusters.
pub const PROGRAM: &str = "VESTAL_TEST_KUBERNETES";

/// The variable that names the directory of the cluster that runs.
pub const CLUSTER: &str = "VESTAL_TEST_KUBERNETES_DIR";

/// The page with the role that users are given.
const DOCS: &str = include_str!("../../../docs/kubernetes.md");

/// A namespace of its own, for a user who may there what the documentation says and nothing else.
/// It is deleted when this is dropped.
#[derive(Debug)]
pub struct KubernetesNamespace {
    dir: PathBuf,
    name: String,
    kubeconfig: PathBuf,
    line: Line,
}

impl KubernetesNamespace {
    /// Returns a directory that pods can share: nodes see no others of this machine.
    pub fn shared_root() -> PathBuf {
        let root = PathBuf::from(given(CLUSTER)).join("w");
        std::fs::create_dir_all(&root).unwrap();
        root
    }

    /// Makes a namespace with a claim `fixture` whose files are in `shared`, below
    /// [`Self::shared_root`], and writes a kubeconfig for its user.
    pub fn create(shared: &Path, kubeconfig: PathBuf) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let name = format!("t-{}-{count}-{:x}", std::process::id(), now.as_nanos());
        let dir = PathBuf::from(given(CLUSTER));
        let admin = std::fs::read_to_string(dir.join("kubeconfig")).unwrap();
        let port = admin.split("https://127.0.0.1:").nth(1).unwrap();
        let port: u16 = port.split('"').next().unwrap().parse().unwrap();
        let made = Self { dir, name, kubeconfig, line: Line::to(port) };
        made.apply(shared);
        made.write_kubeconfig(&admin);
        made
    }

    fn apply(&self, shared: &Path) {
        let role = DOCS.split("<!-- role -->\n```yaml\n").nth(1).unwrap();
        let role = role.split("```").next().unwrap();
        let role = role.replace("namespace: agents", &format!("namespace: {}", self.name));
        let Self { name, .. } = self;
        let capacity = json!({ "storage": "1Gi" });
        let modes = json!(["ReadWriteMany"]);
        let objects = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount",
                   "metadata": {"name": "vestal", "namespace": name}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                   "spec": {"capacity": capacity, "accessModes": modes, "storageClassName": "",
                            "persistentVolumeReclaimPolicy": "Retain",
                            "claimRef": {"namespace": name, "name": "fixture"},
                            "hostPath": {"path": shared}}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                   "metadata": {"name": "fixture", "namespace": name},
                   "spec": {"accessModes": modes, "storageClassName": "", "volumeName": name,
                            "resources": {"requests": capacity}}}),
        ];
        let objects: Vec<String> = objects.iter().map(Value::to_string).collect();
        self.admin(
            &["apply", "-f", "-"],
            &format!("# YAML\n{}\n---\n{role}", objects.join("\n---\n")),
        );
    }

    fn write_kubeconfig(&self, admin: &str) {
        let mut token = String::new();
        wait_until("the user has a token", || {
            let secrets = self.get("secrets");
            let of_user = |secret: &&Value| {
                secret["metadata"]["annotations"]["kubernetes.io/service-account.name"] == "vestal"
            };
            let secret = secrets.iter().find(of_user);
            let encoded = secret.and_then(|secret| secret["data"]["token"].as_str());
            token = encoded.map(decoded).unwrap_or_default();
            !token.is_empty()
        });
        let authority = admin.split("certificate-authority-data: \"").nth(1).unwrap();
        let authority = authority.split('"').next().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "vestal"}}],
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.line.port),
                "certificate-authority-data": authority}}],
            "users": [{"name": "vestal", "user": {"token": token}}],
        });
        std::fs::write(&self.kubeconfig, config.to_string()).unwrap();
    }

    /// Returns the namespace's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kubeconfig of its user.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Does something as who may everything, with this input, and returns what is printed.
    pub fn admin(&self, arguments: &[&str], input: &str) -> String {
        let printed = self.try_admin(arguments, input);
        printed.unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"))
    }

    /// Returns a command of `kubectl` as who may everything.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.dir.join("system/root/usr/bin/kubectl"));
        command
            .arg("--kubeconfig")
            .arg(self.dir.join("kubeconfig"))
            .args(["--cache-dir", "/dev/null/none", "--namespace", &self.name])
            .args(arguments);
        command
    }

    fn try_admin(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// Returns the objects of a kind.
    pub fn get(&self, kind: &str) -> Vec<Value> {
        let listed = self.admin(&["get", kind, "-o", "json"], "");
        let listed: Value = serde_json::from_str(&listed).unwrap();
        listed["items"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the pods of sandboxes.
    pub fn pods(&self) -> Vec<Value> {
        let is_sandbox = |pod: &Value| pod["metadata"]["labels"]["vestal-agent"] == "1";
        self.get("pods").into_iter().filter(is_sandbox).collect()
    }

    /// Returns the claims of sandboxes.
    pub fn claims(&self) -> Vec<Value> {
        let is_sandbox = |claim: &Value| claim["metadata"]["labels"]["vestal-agent"] == "1";
        self.get("pvc").into_iter().filter(is_sandbox).collect()
    }

    /// Returns the directory of a sandbox's files, by the hash of its key, as this machine sees
    /// it; one that is not there if it has none.
    pub fn files_dir(&self, key: &str) -> PathBuf {
        let claims = self.claims();
        let claim = claims.iter().find(|claim| claim["metadata"]["labels"]["vestal-key"] == key);
        let Some(volume) = claim.and_then(|claim| claim["spec"]["volumeName"].as_str()) else {
            return self.dir.join("none").join(key);
        };
        let volume = self.admin(&["get", "pv", volume, "-o", "json"], "");
        let volume: Value = serde_json::from_str(&volume).unwrap();
        let path = volume["spec"]["hostPath"]["path"].as_str().unwrap();
        self.dir.join("state").join(path.trim_start_matches('/'))
    }

    /// Returns the directory that the guest of a sandbox keeps its state in.
    pub fn state_dir(&self, key: &str) -> PathBuf {
        let claims = self.claims();
        let claim = claims.iter().find(|claim| claim["metadata"]["labels"]["vestal-key"] == key);
        let state = claim.unwrap()["metadata"]["labels"]["vestal-state"].as_str().unwrap();
        self.files_dir(key).join("state").join(state)
    }

    /// Does something to the cluster, by a verb of `kubernetes`.
    pub fn control(&self, verb: &str, options: &[&str]) {
        let mut command = Command::new(given(PROGRAM));
        let printed = command.arg(verb).arg(&self.dir).args(options).output().unwrap();
        assert!(printed.status.success(), "{verb}: {}", String::from_utf8_lossy(&printed.stderr));
    }

    /// Cuts every connection of the user.
    pub fn cut(&self) {
        self.line.cut();
    }

    /// Cuts every new connection of the user from now on.
    pub fn refuse_connections(&self) {
        self.line.refusing.store(true, Ordering::Relaxed);
    }

    /// Ends that.
    pub fn accept_connections(&self) {
        self.line.refusing.store(false, Ordering::Relaxed);
    }

    /// Holds what is sent, as when a cable is pulled, until it is let go.
    pub fn freeze(&self, frozen: bool) {
        self.line.frozen.store(frozen, Ordering::Relaxed);
    }
}

impl Drop for KubernetesNamespace {
    fn drop(&mut self) {
        let namespace = ["delete", "namespace", &*self.name, "--wait=false"];
        let volume = ["delete", "pv", &*self.name, "--wait=false"];
        for command in [&namespace, &volume] {
            let deleted = self.try_admin(&command[..], "");
            if !std::thread::panicking() {
                deleted.unwrap();
            }
        }
    }
}

/// What the user's connections go through.
#[derive(Debug)]
struct Line {
    port: u16,
    streams: Arc<Mutex<HashMap<u64, [TcpStream; 2]>>>,
    refusing: Arc<AtomicBool>,
    frozen: Arc<AtomicBool>,
}

impl Line {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let line = Self {
            port: listener.local_addr().unwrap().port(),
            streams: Arc::default(),
            refusing: Arc::default(),
            frozen: Arc::default(),
        };
        let streams = Arc::clone(&line.streams);
        let (refusing, frozen) = (Arc::clone(&line.refusing), Arc::clone(&line.frozen));
        std::thread::spawn(move || {
            for (number, client) in (0..).zip(listener.incoming().flatten()) {
                if refusing.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                for end in [&client, &server] {
                    end.set_nodelay(true).ok();
                }
                let ends = [client.try_clone().unwrap(), server.try_clone().unwrap()];
                streams.lock().unwrap().insert(number, ends);
                for (from, to) in
                    [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
                {
                    let (streams, frozen) = (Arc::clone(&streams), Arc::clone(&frozen));
                    std::thread::spawn(move || {
                        carry(&from, &to, &frozen);
                        streams.lock().unwrap().remove(&number);
                    });
                }
            }
        });
        line
    }

    fn cut(&self) {
        for (_, ends) in self.streams.lock().unwrap().drain() {
            for end in ends {
                end.shutdown(Shutdown::Both).ok();
            }
        }
    }
}

fn carry(mut from: &TcpStream, mut to: &TcpStream, frozen: &AtomicBool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        while frozen.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        end.shutdown(Shutdown::Both).ok();
    }
}

/// Decodes base64.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    String::from_utf8(bytes).unwrap()
}
