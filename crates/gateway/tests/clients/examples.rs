//! The examples of `docs/api.md`, as they stand there.

use std::path::Path;

use vestal_gateway::ShutdownCause;

use super::support::TestGateway;
use super::{clients, model, run};

/// The address that the examples name.
const DOCUMENTED: &str = "http://127.0.0.1:8642";

/// Stands before an example that can be run.
const MARK: &str = "<!-- run -->";

#[tokio::test]
async fn the_examples_of_the_documentation_work() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let examples = examples(&std::fs::read_to_string(path).unwrap());
    let languages: Vec<&str> = examples.iter().map(|(language, _)| language.as_str()).collect();
    for language in ["sh", "python", "js"] {
        assert!(languages.contains(&language), "no example in {language}: {languages:?}");
    }
    let gateway = TestGateway::start(model()).await;
    let dir = gateway.home.path().to_owned();
    std::os::unix::fs::symlink(clients().join("node/node_modules"), dir.join("node_modules"))
        .unwrap();
    for (number, (language, text)) in examples.iter().enumerate() {
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
        let said = run(&gateway, &program, &[file]).await;
        assert!(!said.contains("\"error\":{"), "{text}\n{said}");
    }
    gateway.remove_sandbox().await;
    let removed = gateway.delete("/api/sandboxes/build?files=true").await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    gateway.end(ShutdownCause::Planned).await;
}

/// Returns the language and the text of each example that can be run.
fn examples(page: &str) -> Vec<(String, String)> {
    let after_marks = page.split(MARK).skip(1);
    let example = |text: &str| {
        let text = text.trim_start().strip_prefix("```").expect("a fence after the mark");
        let (language, rest) = text.split_once('\n').unwrap();
        let (body, _) = rest.split_once("\n```").unwrap();
        (language.to_owned(), body.to_owned())
    };
    after_marks.map(example).collect()
}
