//! Connections are used again, and closed when nobody waits any more.

use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use vestal_model::{AnswerProgress, Message, ModelOptions, ModelRequest, Models};
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};

use crate::support::{APIS, ask, endpoint, label, models, options, server};

#[tokio::test]
async fn fifty_calls_use_one_connection() {
    for api in APIS {
        let server = ScriptedModel::start(Script::echo());
        let models = models();
        for _ in 0..50 {
            let outcome = ask(&models, vec![endpoint(api, &server.base_url())]).await;
            assert!(!outcome.text().is_empty());
        }
        assert_eq!(server.requests().len(), 50);
        assert_eq!(server.connections(), 1, "{}", label(api));
    }
}

#[tokio::test]
async fn a_proxy_is_used_where_one_is_named_but_not_for_this_machine() {
    let proxy = server([ScriptedReply::text("through the proxy")]);
    let here = server([ScriptedReply::text("directly")]);
    let address = format!("http://{}", proxy.address());
    let models = Models::new(ModelOptions { proxy: Some(address), ..options() }).unwrap();
    let outcome = ask(&models, vec![endpoint(APIS[0], "http://models.invalid/v1")]).await;
    assert_eq!(outcome.text(), "through the proxy");
    let outcome = ask(&models, vec![endpoint(APIS[0], &here.base_url())]).await;
    assert_eq!(outcome.text(), "directly");
}

#[tokio::test]
async fn a_failed_call_leaves_its_connection_usable() {
    let server = server([
        ScriptedReply::error(500, "x"),
        ScriptedReply::error(429, "x"),
        ScriptedReply::text("ok"),
    ]);
    let models = models();
    let outcome = ask(&models, vec![endpoint(APIS[0], &server.base_url())]).await;
    assert_eq!(outcome.text(), "ok");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn dropping_the_call_hangs_up() {
    for api in APIS {
        let server = server([ScriptedReply::text("a long story").chunked(2).hold_after(1)]);
        let models = models();
        let chat = models.chat(vec![endpoint(api, &server.base_url())]);
        let reported: Arc<Mutex<Vec<AnswerProgress>>> = Arc::default();
        let heard = Arc::clone(&reported);
        let call = tokio::spawn(async move {
            let messages = [Message::user("hello")];
            let request = ModelRequest { messages: &messages, ..ModelRequest::default() };
            let mut watch =
                |progress| heard.lock().unwrap_or_else(PoisonError::into_inner).push(progress);
            chat.complete(&request, &mut watch).await
        });
        server.wait_for_holds(1).await;
        assert_eq!(server.hangups(), 0);
        call.abort();
        server.wait_for_hangup().await;
        assert!(call.await.unwrap_err().is_cancelled());
    }
}

#[tokio::test]
async fn words_are_reported_before_the_answer_is_whole() {
    for api in APIS {
        let server = server([ScriptedReply::text("one two").chunked(4).hold_after(1)]);
        let models = models();
        let chat = models.chat(vec![endpoint(api, &server.base_url())]);
        let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
        let call = tokio::spawn(async move {
            let messages = [Message::user("hello")];
            let request = ModelRequest { messages: &messages, ..ModelRequest::default() };
            chat.complete(&request, &mut |progress| send.send(progress).unwrap()).await
        });
        server.wait_for_holds(1).await;
        assert_eq!(
            receive.recv().await,
            Some(AnswerProgress::Text("one ".to_owned())),
            "{}",
            label(api)
        );
        assert!(receive.try_recv().is_err());
        server.release();
        assert_eq!(receive.recv().await, Some(AnswerProgress::Text("two".to_owned())));
        assert_eq!(call.await.unwrap().unwrap().message.text, "one two");
    }
}

/// Serves one finished answer and then nothing but signs of life.
fn lingering_server() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap_or_else(|e| panic!("{e}"));
    let address = listener.local_addr().unwrap_or_else(|e| panic!("{e}"));
    std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut request = [0; 4096];
        while !request.windows(7).any(|part| part == b"\"hello\"") {
            if stream.read(&mut request)? == 0 {
                return Ok(());
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")?;
        let answer = r#"{"choices":[{"delta":{"content":"done"},"finish_reason":"stop"}]}"#;
        write!(stream, "data: {answer}\n\n")?;
        // Ends when the client has hung up.
        loop {
            stream.write_all(b": still here\n\n")?;
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    address
}

#[tokio::test]
async fn a_finished_answer_does_not_wait_for_a_server_that_lingers() {
    let models =
        Models::new(ModelOptions { idle_timeout: Duration::from_secs(2), retries: 0, ..options() })
            .unwrap();
    let base_url = format!("http://{}/v1", lingering_server());
    let outcome = ask(&models, vec![endpoint(APIS[0], &base_url)]).await;
    assert_eq!(outcome.text(), "done");
}
