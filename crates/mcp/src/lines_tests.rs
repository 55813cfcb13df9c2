use tokio::io::AsyncReadExt as _;

use super::*;

async fn read(input: &[u8]) -> (Vec<u8>, Option<String>) {
    let oddities = Oddities::default();
    let mut watched = WatchedLines::new(input, oddities.clone());
    let mut out = Vec::new();
    watched.read_to_end(&mut out).await.unwrap();
    let redactor = Redactor::new(["hunter2-secret".to_owned()]);
    (out, oddities.in_words(&redactor))
}

#[tokio::test]
async fn messages_pass_unnoticed() {
    let input = b"{\"a\":1}\n\n  {\"b\":2}\r\n[1]\n{\"unfinished\":";
    assert_eq!(read(input).await, (input.to_vec(), None));
}

#[tokio::test]
async fn the_first_line_that_is_no_message_is_remembered() {
    let (out, odd) = read(b"{}\nStarting\x1b[1m server...\nmore\n{}\n").await;
    assert_eq!(out.len(), 34);
    let odd = odd.unwrap();
    assert!(odd.ends_with("not an MCP message: \"Starting[1m server...\""), "{odd}");
}

#[tokio::test]
async fn a_line_without_an_end_is_remembered_too() {
    let (_, odd) = read(b"usage: server").await;
    assert!(odd.unwrap().contains("usage: server"));
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_output() {
    let mut input = vec![b'{'; LONGEST + 1];
    input.extend_from_slice(b"\n{}\n");
    let (out, odd) = read(&input).await;
    assert!(out.len() <= input.len() - 4 + 8192, "{}", out.len());
    assert_eq!(odd.unwrap(), "it sent a message of more than 16 MiB");
    let (_, odd) = read(&vec![b'{'; LONGEST]).await;
    assert_eq!(odd, None);
}

#[tokio::test]
async fn a_secret_in_what_is_no_message_is_masked() {
    let line = format!("{} the key is hunter2-secret\n", "x".repeat(100));
    let (_, odd) = read(line.as_bytes()).await;
    assert!(!odd.unwrap().contains("hunter2"));
}
