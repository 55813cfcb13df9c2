//! Where the browser comes back to after a login: a port of this machine that answers one page.

use std::io;
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::LoginError;

/// Bytes of a request.
const MOST_BYTES: usize = 16 << 10;

/// How long a browser has to send one.
const WITHIN: Duration = Duration::from_secs(10);

const PATH: &str = "/callback";

/// A port that waits for a browser.
pub(super) struct CallbackListener {
    listener: TcpListener,
    port: u16,
}

impl CallbackListener {
    /// Takes a port of this machine: any, unless one is named.
    pub(super) async fn bind(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Returns the address that the browser is sent to.
    pub(super) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the browser and returns the address that it was sent to. Whatever else asks is
    /// answered and forgotten.
    pub(super) async fn wait(&self) -> Result<String, LoginError> {
        loop {
            let accepted = self.listener.accept().await;
            let Ok((mut stream, _)) = accepted else {
                // A connection that ended before it began is no reason to give up.
                tokio::task::yield_now().await;
                continue;
            };
            // One after the other: who says nothing holds the others up for a while only.
            let Ok(Some(target)) = tokio::time::timeout(WITHIN, target(&mut stream)).await else {
                continue;
            };
            let url = format!("http://127.0.0.1:{}{target}", self.port);
            if !is_answer(&url) {
                answer(&mut stream, "404 Not Found", "There is nothing here.").await;
                continue;
            }
            let result = read(&url);
            let words = match &result {
                Ok(_) => "You are logged in. This page can be closed.",
                Err(_) => "The login was refused. This page can be closed.",
            };
            answer(&mut stream, "200 OK", words).await;
            return result;
        }
    }
}

fn is_answer(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        url.path() == PATH && url.query_pairs().any(|(name, _)| name == "code" || name == "error")
    })
}

/// Returns the address that a browser was sent to, unless it says that the login was refused.
pub(super) fn read(url: &str) -> Result<String, LoginError> {
    let parsed = Url::parse(url).map_err(|_| {
        LoginError::Failed(
            "that is not the address the browser was sent to; it begins with http://127.0.0.1"
                .to_owned(),
        )
    })?;
    let field = |wanted: &str| {
        let found = parsed.query_pairs().find(|(name, _)| name == wanted);
        found.map(|(_, value)| crate::tool::one_line(&value, 300))
    };
    if let Some(error) = field("error") {
        let why = field("error_description");
        return Err(LoginError::Refused(
            why.map_or(error.clone(), |why| format!("{error}: {why}")),
        ));
    }
    Ok(url.to_owned())
}

/// Reads a request and returns what it asks for.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0_u8; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut piece).await.ok()?;
        if count == 0 || head.len() + count > MOST_BYTES {
            return None;
        }
        head.extend_from_slice(&piece[..count]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut words = head.lines().next()?.split(' ');
    (words.next() == Some("GET")).then_some(())?;
    words.next().filter(|target| target.starts_with('/')).map(str::to_owned)
}

async fn answer(stream: &mut TcpStream, status: &str, words: &str) {
    let page = format!("<!doctype html><meta charset=utf-8><title>Vestal</title><p>{words}</p>\n");
    let length = page.len();
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{page}"
    );
    // A browser that has gone misses no more than a page.
    drop(tokio::time::timeout(WITHIN, stream.write_all(response.as_bytes())).await);
    drop(stream.shutdown().await);
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        drop(stream.read_to_string(&mut answer).await);
        answer
    }

    #[tokio::test]
    async fn only_the_answer_of_the_login_ends_the_wait() {
        let listener = CallbackListener::bind(None).await.unwrap();
        let port = listener.port;
        let (back, ()) = tokio::join!(listener.wait(), async {
            assert!(
                ask(port, "GET /favicon.ico HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404")
            );
            assert!(ask(port, "GET /callback HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404"));
            assert_eq!(ask(port, &"x".repeat(40 << 10)).await, "");
            let done = ask(port, "GET /callback?code=a&state=b HTTP/1.1\r\n\r\n").await;
            assert!(done.contains("You are logged in"), "{done}");
        });
        assert_eq!(back.unwrap(), format!("http://127.0.0.1:{port}/callback?code=a&state=b"));
    }

    #[tokio::test]
    async fn a_refusal_is_told() {
        let listener = CallbackListener::bind(None).await.unwrap();
        let port = listener.port;
        let request =
            "GET /callback?error=access_denied&error_description=not+you HTTP/1.1\r\n\r\n";
        let (back, _) = tokio::join!(listener.wait(), ask(port, request));
        let refused = back.unwrap_err().to_string();
        assert_eq!(refused, "the login was refused: access_denied: not you");
        assert!(read("what?").is_err());
    }
}
