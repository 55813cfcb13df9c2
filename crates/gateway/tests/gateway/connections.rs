//! Connections that ask nothing, or too slowly, harm nobody.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use vestal_gateway::Shutdown;
use vestal_scripted_model::{Reply, Script};

use crate::support::TestGateway;

#[tokio::test]
async fn a_thousand_connections_that_ask_nothing_take_no_place() {
    let gateway = TestGateway::start(Script::replies([Reply::text("unhurt")])).await;
    let address = gateway.url("").trim_start_matches("http://").to_owned();
    let mut idle = Vec::new();
    for number in 0..1000 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let garbage: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx-slow: ",
            _ => b"\x16\x03\x01garbage",
        };
        // A server that has seen enough may have closed the connection.
        stream.write_all(garbage).await.ok();
        idle.push(stream);
    }
    assert_eq!(gateway.ask("are you there?", None).await.text(), "unhurt");
    // The oldest had to go.
    let mut said = Vec::new();
    idle[0].read_to_end(&mut said).await.ok();
    assert_eq!(said, b"");
    drop(idle);
    gateway.end(Shutdown::Planned).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let body = serde_json::json!({ "input": "x".repeat(33 << 20) });
    for key in [None, Some("k")] {
        let mut request = gateway.post("/v1/responses", &body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let refused = crate::support::answer(request).await;
        assert_eq!(refused.status, 413, "{}", refused.body);
    }
    gateway.end(Shutdown::Planned).await;
}
