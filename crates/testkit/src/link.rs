//! Another machine's requests and streams over TCP, which are slow, and are cut.

use std::io::{BufRead as _, BufReader, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// What a request gets.
#[derive(Debug)]
pub enum LinkReply {
    /// A line of JSON, and the end of the connection.
    Line(Value),
    /// The line `{}`, and from then on the stream of this socket.
    Stream(PathBuf),
}

/// A server of requests over TCP, each a line of JSON on a connection of its own. It delays what
/// it carries, cuts one stream in so many before anything is sent, and all of them when a test
/// says so. It runs until the test's process ends.
#[derive(Debug, Clone)]
pub struct SlowLink {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    address: SocketAddr,
    latency: Duration,
    cut_every: usize,
    carried: Mutex<Vec<TcpStream>>,
    asked: AtomicUsize,
    is_closed: AtomicBool,
}

impl SlowLink {
    /// Starts a server that sends each piece `latency` later and cuts one stream in `cut_every`. An
    /// error of `answer` is sent as `{"error": …}`.
    pub fn serve(
        latency: Duration,
        cut_every: usize,
        answer: impl Fn(&Value) -> Result<LinkReply> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (carried, asked) = (Mutex::default(), AtomicUsize::new(0));
        let is_closed = AtomicBool::new(false);
        let inner = Arc::new(Inner { address, latency, cut_every, carried, asked, is_closed });
        let (serving, answer) = (Arc::clone(&inner), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (serving, answer) = (Arc::clone(&serving), Arc::clone(&answer));
                // A peer that goes away does not want an answer.
                std::thread::spawn(move || serving.reply(stream, &*answer).ok());
            }
        });
        Self { inner }
    }

    /// Returns the server's address.
    pub fn address(&self) -> String {
        self.inner.address.to_string()
    }

    /// Cuts every stream there is.
    pub fn cut(&self) {
        for stream in self.inner.carried.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// Cuts every new stream from now on.
    pub fn refuse_streams(&self) {
        self.inner.is_closed.store(true, Ordering::Relaxed);
    }

    /// Carries new streams again.
    pub fn accept_streams(&self) {
        self.inner.is_closed.store(false, Ordering::Relaxed);
    }
}

impl Inner {
    fn reply(
        &self,
        mut stream: TcpStream,
        answer: impl Fn(&Value) -> Result<LinkReply>,
    ) -> Result<()> {
        stream.set_nodelay(true)?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        std::thread::sleep(self.latency);
        let mut socket = None;
        let answer = match answer(&serde_json::from_str(&line)?) {
            Ok(LinkReply::Line(answer)) => Ok(answer),
            Ok(LinkReply::Stream(_)) if !self.opens() => return Ok(()),
            Ok(LinkReply::Stream(path)) => {
                UnixStream::connect(path).map(|stream| socket = Some(stream)).map(|()| json!({}))
            }
            Err(error) => Err(error),
        };
        let answer = answer.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        stream.write_all(format!("{answer}\n").as_bytes())?;
        socket.map_or(Ok(()), |socket| self.carry(&stream, &socket))
    }

    /// Returns whether the next stream is carried, rather than cut at once.
    fn opens(&self) -> bool {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        number % self.cut_every != self.cut_every - 1 && !self.is_closed.load(Ordering::Relaxed)
    }

    /// Carries bytes both ways until one side ends or the stream is cut.
    fn carry(&self, outside: &TcpStream, inside: &UnixStream) -> Result<()> {
        self.carried.lock().unwrap().push(outside.try_clone()?);
        let (from_outside, to_inside) = (outside.try_clone()?, inside.try_clone()?);
        let latency = self.latency;
        std::thread::spawn(move || {
            copy(&from_outside, &to_inside, latency);
            to_inside.shutdown(Shutdown::Both).ok();
        });
        copy(inside, outside, latency);
        outside.shutdown(Shutdown::Both)
    }
}

fn copy(mut from: impl Read, mut to: impl Write, latency: Duration) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        std::thread::sleep(latency);
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    use super::*;

    const LATENCY: Duration = Duration::from_millis(5);

    /// Sends a request and returns the connection and the line that comes back; it is empty where
    /// the connection was cut.
    fn ask(link: &SlowLink, verb: &str) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(link.address()).unwrap();
        stream.write_all(format!("{}\n", json!({ "verb": verb })).as_bytes()).unwrap();
        let (mut line, mut byte) = (Vec::new(), [0]);
        while line.last() != Some(&b'\n') && matches!(stream.read(&mut byte), Ok(1)) {
            line.push(byte[0]);
        }
        (stream, String::from_utf8(line).unwrap())
    }

    fn link(socket: PathBuf) -> SlowLink {
        SlowLink::serve(LATENCY, 3, move |request| match request["verb"].as_str() {
            Some("stream") => Ok(LinkReply::Stream(socket.clone())),
            Some("fail") => Err(std::io::Error::other("no")),
            _ => Ok(LinkReply::Line(request.clone())),
        })
    }

    #[test]
    fn a_stream_is_carried_late_until_it_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let link = link(socket);
        let (mut client, line) = ask(&link, "stream");
        assert_eq!(line, "{}\n");
        let (mut guest, _) = listener.accept().unwrap();
        let mut piece = [0; 4];
        let sent = Instant::now();
        client.write_all(b"ping").unwrap();
        guest.read_exact(&mut piece).unwrap();
        assert_eq!(&piece, b"ping");
        // The link itself waits that long: an earlier arrival is a fault on any machine.
        assert!(sent.elapsed() >= LATENCY);
        guest.write_all(b"pong").unwrap();
        client.read_exact(&mut piece).unwrap();
        assert_eq!(&piece, b"pong");

        link.cut();
        assert_eq!(client.read(&mut piece).unwrap(), 0);
        assert_eq!(guest.read(&mut piece).unwrap(), 0);
    }

    #[test]
    fn one_stream_in_so_many_is_cut_and_all_while_they_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let link = link(socket);
        let opens = || ask(&link, "stream").1 == "{}\n";
        assert_eq!([opens(), opens(), opens(), opens()], [true, true, false, true]);
        link.refuse_streams();
        assert_eq!([opens(), opens()], [false, false]);
        link.accept_streams();
        assert!(opens());
        // Requests are answered all the time.
        assert_eq!(ask(&link, "echo").1, "{\"verb\":\"echo\"}\n");
        assert_eq!(ask(&link, "fail").1, "{\"error\":\"no\"}\n");
    }
}
