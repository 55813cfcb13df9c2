//! The examples of `docs/api.md`, as they stand there.

use std::path::Path;

use vestal_gateway::ShutdownCause;
use vestal_testkit::pages::{PageExample, marked_examples};

use super::support::TestGateway;
use super::{clients, model, run};

/// The address that the examples name.
const DOCUMENTED: &str = "http://127.0.0.1:8642";

#[tokio::test]
async fn the_examples_of_the_documentation_work() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let examples = marked_examples(&std::fs::read_to_string(path).unwrap());
    let languages: Vec<&str> = examples.iter().map(|example| example.language.as_str()).collect();
    for language in ["sh", "python", "js"] {
        assert!(languages.contains(&language), "no example in {language}: {languages:?}");
    }
    let gateway = TestGateway::start(model()).await;
    let dir = gateway.home.path().to_owned();
    std::os::unix::fs::symlink(clients().join("node/node_modules"), dir.join("node_modules"))
        .unwrap();
    for (number, PageExample { language, text }) in examples.iter().enumerate() {
        let text = text.replace(DOCUMENTED, &gateway.url(""));
        let file = dir
            .join(format!("example-{number}.{}", if language == "js" { "mjs" } else { language }));
        let text = if language == "sh" { format!("set -euo pipefail\n{text}") } else { text };
        std::fs::write(&file, &text).unwrap();
        let file = file.to_str().unwrap();
        let program = match language.as_str() {
            "sh" => Path::new("bash").to_owned(),
            "python" => clients().join("python/bin/python"),
            _ => Path::new("node").to_owned(),
        };
        let reply = run(&gateway, &program, &[file]).await;
        assert!(!reply.contains("\"error\":{"), "{text}\n{reply}");
    }
    gateway.remove_sandbox().await;
    let removed = gateway.delete("/api/sandboxes/build?files=true").await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    gateway.end(ShutdownCause::Planned).await;
}
