//! A socket in front of an engine's, which counts what is asked and makes the
//! engine slow, refuse or break off.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// Longest head of a request.
const MAX_HEAD: usize = 64 << 10;

/// Something that an engine is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path, without the version of the API and without the query.
    pub(crate) path: String,
    pub(crate) query: String,
}

impl Request {
    /// Returns whether it makes the container of a sandbox. Those for errands
    /// have names of their own.
    pub(crate) fn creates(&self) -> bool {
        self.is("POST", "/containers/create", "") && !self.query.contains("vestal-errand-")
    }

    /// Returns whether it starts the container of a sandbox.
    pub(crate) fn starts(&self) -> bool {
        self.is("POST", "/containers/", "/start") && !self.path.contains("/vestal-errand-")
    }

    /// Returns whether it looks at one container.
    pub(crate) fn inspects(&self) -> bool {
        self.is("GET", "/containers/", "/json") && self.path != "/containers/json"
    }

    /// Returns whether it lists containers.
    pub(crate) fn lists(&self) -> bool {
        self.is("GET", "/containers/json", "")
    }

    /// Returns whether it is this method on a path that begins and ends so.
    pub(crate) fn is(&self, method: &str, begin: &str, end: &str) -> bool {
        self.method == method && self.path.starts_with(begin) && self.path.ends_with(end)
    }
}

/// What happens to a request.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// The engine gets it.
    Pass,
    /// The engine gets it later.
    Late(Duration),
    /// The engine gets it when the test says so.
    Await(Hold),
    /// This is the answer; the engine never hears of it.
    Answer(u16, String),
    /// The engine never hears of it, and the caller gets no answer.
    Cut,
    /// The engine does it, and the caller gets no answer.
    CutAnswer,
    /// The engine does it, and the caller gets no answer, and that only when
    /// the test says so.
    Hold(Hold),
}

impl Fate {
    /// Returns the answer of an engine that cannot do what it is asked for.
    pub(crate) fn failure() -> Self {
        Self::Answer(500, r#"{"message":"something broke"}"#.to_owned())
    }
}

/// Where a test meets a request.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    reached: watch::Sender<bool>,
    released: watch::Sender<bool>,
}

impl Hold {
    pub(crate) fn new() -> Self {
        Self { reached: watch::channel(false).0, released: watch::channel(false).0 }
    }

    /// Waits until the request has come or, where the engine does it first, has
    /// been carried out.
    pub(crate) async fn reached(&self) {
        self.reached.subscribe().wait_for(|reached| *reached).await.unwrap();
    }

    /// Lets it continue.
    pub(crate) fn release(&self) {
        self.released.send_replace(true);
    }

    async fn wait(&self) {
        self.reached.send_replace(true);
        self.released.subscribe().wait_for(|released| *released).await.ok();
    }
}

type Rule = Box<dyn FnMut(&Request) -> Fate + Send>;

/// The socket, and what went through it.
pub(crate) struct Proxy {
    socket: PathBuf,
    shared: Arc<Shared>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Shared {
    engine: PathBuf,
    seen: Mutex<Vec<Request>>,
    rule: Mutex<Rule>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Proxy {
    /// Opens a socket in front of an engine's. It has a thread of its own, so
    /// that a test may do what takes time.
    pub(crate) fn new(socket: &Path, host: &str) -> Self {
        let engine = host.strip_prefix("unix://").unwrap().into();
        let shared = Arc::new(Shared {
            engine,
            seen: Mutex::default(),
            rule: Mutex::new(Box::new(|_| Fate::Pass)),
        });
        let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = UnixListener::from_std(listener).unwrap();
                let serve = async {
                    loop {
                        let (stream, _) = listener.accept().await.unwrap();
                        tokio::spawn(relay(stream, Arc::clone(&serving)));
                    }
                };
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            });
        });
        Self { socket: socket.into(), shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the address to give as the engine's.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Says what happens to requests from now on.
    pub(crate) fn rule(&self, rule: impl FnMut(&Request) -> Fate + Send + 'static) {
        *self.shared.rule.lock().unwrap() = Box::new(rule);
    }

    /// Lets everything pass from now on.
    pub(crate) fn pass(&self) {
        self.rule(|_| Fate::Pass);
    }

    /// Returns what was asked since the last time.
    pub(crate) fn take(&self) -> Vec<Request> {
        std::mem::take(&mut self.shared.seen.lock().unwrap())
    }

    /// Returns how often this was asked since the last [`Proxy::take`].
    pub(crate) fn count(&self, wanted: impl Fn(&Request) -> bool) -> usize {
        self.shared.seen.lock().unwrap().iter().filter(|request| wanted(request)).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Carries one request and its answer. Both sides learn that the connection
/// ends with it, so that every request comes by a connection of its own.
async fn relay(mut caller: UnixStream, shared: Arc<Shared>) -> Option<()> {
    let mut head = Vec::new();
    let end = loop {
        let mut part = [0; 4096];
        let count = caller.read(&mut part).await.ok()?;
        if count == 0 || head.len() > MAX_HEAD {
            return None;
        }
        head.extend_from_slice(&part[..count]);
        if let Some(at) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
    };
    let text = String::from_utf8_lossy(&head[..end]).into_owned();
    let request = parse(&text)?;
    shared.seen.lock().unwrap().push(request.clone());
    let fate = (shared.rule.lock().unwrap())(&request);
    match &fate {
        Fate::Late(delay) => tokio::time::sleep(*delay).await,
        Fate::Await(hold) => hold.wait().await,
        Fate::Answer(status, body) => {
            // What was not read would make the connection end with an error.
            drain(&mut caller, &text, head.len() - end - 4).await;
            let answer = format!(
                "HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {}\
                 \r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            caller.write_all(answer.as_bytes()).await.ok()?;
            return Some(());
        }
        Fate::Cut => return Some(()),
        Fate::Pass | Fate::CutAnswer | Fate::Hold(_) => {}
    }
    let mut engine = UnixStream::connect(&shared.engine).await.ok()?;
    let upgrades = text.to_ascii_lowercase().contains("\r\nupgrade:");
    engine.write_all(&head[..end]).await.ok()?;
    if !upgrades {
        engine.write_all(b"\r\nConnection: close").await.ok()?;
    }
    engine.write_all(&head[end..]).await.ok()?;
    if matches!(fate, Fate::CutAnswer | Fate::Hold(_)) {
        let (mut from_caller, _to_caller) = caller.split();
        let (mut from_engine, mut to_engine) = engine.split();
        let mut answer = Vec::new();
        tokio::select! {
            _ = from_engine.read_to_end(&mut answer) => {}
            () = async {
                tokio::io::copy(&mut from_caller, &mut to_engine).await.ok();
                std::future::pending::<()>().await;
            } => {}
        }
        if let Fate::Hold(hold) = &fate {
            hold.wait().await;
        }
        return Some(());
    }
    copy_bidirectional(&mut caller, &mut engine).await.ok()?;
    Some(())
}

/// Reads the rest of a request's body.
async fn drain(caller: &mut UnixStream, head: &str, read: usize) {
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let left = length.unwrap_or(0).saturating_sub(read) as u64;
    tokio::io::copy(&mut caller.take(left), &mut tokio::io::sink()).await.ok();
}

fn parse(head: &str) -> Option<Request> {
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    // Some clients name the host in the first line.
    let target = target.find("://").map_or(target, |at| {
        let rest = &target[at + 3..];
        rest.find('/').map_or("/", |slash| &rest[slash..])
    });
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = match path.strip_prefix("/v1.") {
        Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => path,
    };
    Some(Request { method: method.into(), path: path.into(), query: query.into() })
}
