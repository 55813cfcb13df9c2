//! The machine of the toy backend: threads of the test that own a directory
//! which nobody else looks into, and answer over TCP, slowly, and sometimes not.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use vestal_testkit::processes::with_variable;
use vestal_wire::{EnvVar, GuestSettings};

use super::process::alive;

/// How much later than sent everything arrives.
const LATENCY: Duration = Duration::from_micros(500);

/// One in so many streams to a guest is cut before anything comes through.
const CUT_EVERY: usize = 7;

/// A machine that is reached over TCP.
#[derive(Debug, Clone)]
pub(crate) struct ToyMachine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    address: SocketAddr,
    /// What may be looked at or changed by one request at a time: ids of
    /// instances that were removed, and so are never made again.
    removed: Mutex<HashSet<String>>,
    /// Streams to guests, for a case to cut.
    streams: Mutex<Vec<TcpStream>>,
    connected: AtomicUsize,
    /// Whether every stream to a guest is cut before anything comes through.
    refusing: AtomicBool,
}

impl ToyMachine {
    /// Starts a machine that keeps its files in `root`. It runs until the test's
    /// process ends.
    pub(crate) fn start(root: PathBuf) -> Self {
        fs::create_dir_all(root.join("instances")).unwrap();
        let guest = root.join("guest");
        fs::write(&guest, vestal_sandbox::GUEST).unwrap();
        fs::set_permissions(&guest, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (removed, streams) = (Mutex::default(), Mutex::default());
        let (connected, refusing) = (AtomicUsize::new(0), AtomicBool::new(false));
        let inner = Arc::new(Inner { root, address, removed, streams, connected, refusing });
        let machine = Self { inner };
        let serving = machine.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let machine = serving.clone();
                // A peer that goes away is one that wanted no answer.
                std::thread::spawn(move || machine.serve(stream).ok());
            }
        });
        machine
    }

    pub(crate) fn address(&self) -> String {
        self.inner.address.to_string()
    }

    /// Returns the directory of an instance.
    pub(crate) fn instance_dir(&self, id: &str) -> PathBuf {
        self.inner.root.join("instances").join(id)
    }

    /// Returns the directory of a sandbox's files, by the hash of its key.
    pub(crate) fn files_dir(&self, key: &str) -> PathBuf {
        self.inner.root.join("files").join(key)
    }

    /// Returns the ids of the instances there are.
    pub(crate) fn instances(&self) -> Vec<String> {
        let entries = fs::read_dir(self.inner.root.join("instances")).into_iter().flatten();
        entries.flatten().map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    /// Cuts every connection to a guest.
    pub(crate) fn cut(&self) {
        for stream in self.inner.streams.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// Cuts every new connection to a guest from now on.
    pub(crate) fn refuse_connections(&self) {
        self.inner.refusing.store(true, Ordering::Relaxed);
    }

    /// Ends that.
    pub(crate) fn accept_connections(&self) {
        self.inner.refusing.store(false, Ordering::Relaxed);
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        std::thread::sleep(LATENCY);
        let request: Value = serde_json::from_str(&line)?;
        let id = request["instance"].as_str().unwrap_or_default();
        if request["verb"] == "connect" {
            return self.carry(id, stream);
        }
        let answer = self.answer(id, &request);
        let answer = answer.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        stream.write_all(format!("{answer}\n").as_bytes())
    }

    fn answer(&self, id: &str, request: &Value) -> std::io::Result<Value> {
        let mut removed = self.inner.removed.lock().unwrap();
        let dir = self.instance_dir(id);
        let key = request["key"].as_str().unwrap_or_default();
        match request["verb"].as_str().unwrap_or_default() {
            "create" | "start" if removed.contains(id) => Err(other("it was removed")),
            // Who sends it again gets what is there.
            "create" | "start" if self.guest(id).is_some() => Ok(self.locator(id)),
            "create" => {
                fs::create_dir_all(dir.join("io"))?;
                self.launch(id, request)
            }
            "start" => self.launch(id, request),
            "end" => self.end(id),
            "remove" => {
                removed.insert(id.to_owned());
                self.end(id)?;
                remove_tree(&dir).map(|()| json!({}))
            }
            "state" => Ok(self.state(id)),
            "find" => Ok(json!({ "found": self.instances().iter().map(|id| {
                let mut found = self.state(id);
                found["instance"] = json!(id);
                found["label"] = read_json(&self.instance_dir(id).join("label.json"));
                found["locator"] = self.locator(id);
                found
            }).collect::<Vec<_>>() })),
            "volumes" => {
                let files = ["workspace", "home"].map(|name| self.files_dir(key).join(name));
                let there = files.iter().filter(|path| path.is_dir());
                Ok(
                    json!({ "volumes": there.map(|path| path.to_str().unwrap()).collect::<Vec<_>>() }),
                )
            }
            "remove-volumes" if request["keep_files"] == true => {
                remove_tree(&self.files_dir(key).join("state")).map(|()| json!({}))
            }
            "remove-volumes" => remove_tree(&self.files_dir(key)).map(|()| json!({})),
            verb => Err(other(&format!("unknown verb {verb}"))),
        }
    }

    /// Starts a guest as a process of its own and waits until it listens.
    fn launch(&self, id: &str, request: &Value) -> std::io::Result<Value> {
        let dir = self.instance_dir(id);
        let bytes: Vec<u8> = serde_json::from_value(request["guest"].clone())?;
        let mut guest: GuestSettings =
            vestal_wire::decode(&bytes).map_err(std::io::Error::other)?;
        let files = self.files_dir(&guest.key);
        for name in ["workspace", "home"] {
            fs::create_dir_all(files.join(name))?;
        }
        // What the guest of an instance keeps that ends with its owner does so, too.
        let state = if guest.ephemeral { &dir } else { &files }.join("state");
        let bytes_of = |path: PathBuf| path.to_str().unwrap().as_bytes().to_vec();
        let home = files.join("home");
        let path = vestal_config::Environment::capture().get("PATH").unwrap().to_owned();
        let variable = |name: &str, value: Vec<u8>| EnvVar {
            name: name.as_bytes().to_vec().into(),
            value: value.into(),
        };
        guest.socket_dir = bytes_of(dir.join("io")).into();
        guest.state_dir = bytes_of(state).into();
        guest.home = bytes_of(home.clone()).into();
        guest.start_dir = bytes_of(files.join("workspace")).into();
        guest.env = vec![
            variable("PATH", path.as_encoded_bytes().to_vec()),
            variable("HOME", bytes_of(home)),
        ];
        let locator = json!({ "workspace": files.join("workspace") });
        fs::write(dir.join("locator.json"), locator.to_string())?;
        fs::write(dir.join("label.json"), request["label"].to_string())?;
        let settings = dir.join("settings");
        fs::write(&settings, vestal_wire::encode(&guest).map_err(std::io::Error::other)?)?;
        let mut command = Command::new(self.inner.root.join("guest"));
        command
            .args(["serve", "--detach", "--settings-fd", "0", "--ready-fd", "1", "--hold-fd", "2"])
            .env_clear()
            .env("PATH", path)
            .envs(request["failpoint"].as_str().map(|name| ("VESTAL_GUEST_FAILPOINT", name)))
            .current_dir("/")
            .stdin(fs::File::open(settings)?)
            .stderr(fs::File::open("/dev/null")?)
            .stdout(Stdio::piped());
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match said.strip_prefix("error: ") {
            Some(reason) => Err(other(reason.trim())),
            None if said.is_empty() => Err(other("it ended before it was ready")),
            None => Ok(self.locator(id)),
        }
    }

    fn locator(&self, id: &str) -> Value {
        read_json(&self.instance_dir(id).join("locator.json"))
    }

    /// Returns the guest of an instance, if it lives.
    pub(crate) fn guest(&self, id: &str) -> Option<u32> {
        let written = read_json(&self.instance_dir(id).join("io/guest.json"));
        let pid = u32::try_from(written["pid"].as_u64()?).ok()?;
        alive(pid).then_some(pid)
    }

    fn state(&self, id: &str) -> Value {
        if self.guest(id).is_some() {
            return json!({ "state": "running" });
        }
        // The end of a guest removes its files there and so moves the time.
        match fs::metadata(self.instance_dir(id).join("io")).and_then(|io| io.modified()) {
            Ok(at) => {
                let since = at.duration_since(UNIX_EPOCH).unwrap().as_millis();
                json!({ "state": "stopped", "since": u64::try_from(since).unwrap() })
            }
            Err(_) => json!({ "state": "absent" }),
        }
    }

    /// Kills everything of an instance.
    fn end(&self, id: &str) -> std::io::Result<Value> {
        let mark = format!("VESTAL_INSTANCE={id}");
        loop {
            let guest = self.guest(id);
            let marked = with_variable(&mark);
            if guest.is_none() && marked.is_empty() {
                return Ok(json!({}));
            }
            for pid in guest.into_iter().chain(marked) {
                let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Carries bytes between a connection and a guest, each a while later.
    fn carry(&self, id: &str, mut stream: TcpStream) -> std::io::Result<()> {
        let number = self.inner.connected.fetch_add(1, Ordering::Relaxed);
        if number % CUT_EVERY == CUT_EVERY - 1 || self.inner.refusing.load(Ordering::Relaxed) {
            return stream.shutdown(Shutdown::Both);
        }
        let guest = match UnixStream::connect(self.instance_dir(id).join("io/guest.sock")) {
            Ok(guest) => guest,
            Err(error) => {
                let answer = json!({ "error": error.to_string() });
                return stream.write_all(format!("{answer}\n").as_bytes());
            }
        };
        stream.write_all(b"{}\n")?;
        self.inner.streams.lock().unwrap().push(stream.try_clone()?);
        let (to_guest, from_guest) = (guest.try_clone()?, guest);
        let from_peer = stream.try_clone()?;
        std::thread::spawn(move || {
            copy(&from_peer, &to_guest);
            to_guest.shutdown(Shutdown::Both).ok();
        });
        copy(&from_guest, &stream);
        stream.shutdown(Shutdown::Both)
    }
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        std::thread::sleep(LATENCY);
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

fn remove_tree(dir: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn read_json(path: &Path) -> Value {
    fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn other(reason: &str) -> std::io::Error {
    std::io::Error::other(reason.to_owned())
}
