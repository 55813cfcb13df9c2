//! From a report to a line.

use std::path::Path;

use tracing_subscriber::layer::SubscriberExt as _;

use super::*;
use crate::read_entries::{EntryReader, LogInput, PendingEntry};

/// Runs with a layer, and returns what is shown and what is echoed.
fn with_layer(
    shown: LevelFilter,
    echoes: bool,
    dir: &Path,
    work: impl FnOnce(&dyn Fn()),
) -> (Vec<String>, Vec<String>) {
    let (reports, echoed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let take = Arc::clone(&reports);
    let (layer, handle) = layer("vestal", shown, move |report| {
        take.lock().unwrap().push(format!("{} {}", report.level, report.text));
    });
    let take = Arc::clone(&echoed);
    let begin = || {
        let take = Arc::clone(&take);
        let echo = move |entry: &str| take.lock().unwrap().push(entry.to_owned());
        handle.begin(Destinations {
            files: vec![
                (Level::Info, LogFiles::new(dir.join("agent.log"), 5_000_000, 3)),
                (Level::Warn, LogFiles::new(dir.join("errors.log"), 2_000_000, 2)),
            ],
            echo: echoes.then(|| Box::new(echo) as Echo),
            redact: Box::new(|text| text.replace("sk-secret", "***")),
        });
    };
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || work(&begin));
    let taken = |list: &Mutex<Vec<String>>| list.lock().unwrap().clone();
    (taken(&reports), taken(&echoed))
}

/// Returns the entries of a file without their times.
fn entries(path: std::path::PathBuf) -> Vec<String> {
    let source = LogInput::new("test", None, LogFiles::new(path, 0, 1));
    let mut reader = EntryReader::new(source);
    std::iter::from_fn(|| reader.next_entry(PendingEntry::Take).unwrap())
        .map(|entry| entry.text())
        .collect()
}

#[test]
fn a_line_carries_session_run_and_task_of_the_spans_around_it_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let (shown, _) = with_layer(LevelFilter::WARN, false, dir.path(), |begin| {
        begin();
        tracing::info!("alone");
        tracing::info!(target: "hyper", "of another crate");
        let task =
            tracing::info_span!("task", task = "t_1", run = 7, session = tracing::field::Empty);
        let _task = task.enter();
        tracing::info!(key = "sk-secret", count = 2, "begins");
        task.record("session", "outer");
        tracing::info_span!("turn", session = %"inner").in_scope(|| {
            tracing::warn!(error = %"cannot use sk-secret", "failed\nbadly");
            tracing::debug!("a detail");
        });
        tracing::error!(conversation = %"named", "over");
    });
    let target = module_path!();
    let warning =
        format!("WARN [inner] {target}: failed\n    badly error=cannot use *** task=t_1 run=7");
    let error = format!("ERROR [named] {target}: over task=t_1 run=7");
    assert_eq!(entries(dir.path().join("errors.log")), [warning.clone(), error.clone()]);
    assert_eq!(
        entries(dir.path().join("agent.log")),
        [
            format!("INFO [-] {target}: alone"),
            format!("INFO [-] {target}: begins key=\"***\" count=2 task=t_1 run=7"),
            warning,
            error,
        ]
    );
    assert_eq!(
        shown,
        ["WARN failed\nbadly error=cannot use sk-secret", "ERROR over conversation=named"]
    );
}

#[test]
fn nothing_is_written_before_there_is_a_destination_nor_opened_before_there_is_an_entry() {
    let dir = tempfile::tempdir().unwrap();
    let (shown, _) = with_layer(LevelFilter::WARN, false, dir.path(), |begin| {
        assert!(!tracing::enabled!(tracing::Level::INFO));
        assert!(tracing::info_span!("turn", session = "s").is_disabled());
        tracing::warn!("early");
        begin();
        assert!(!tracing::info_span!("turn", session = "s").is_disabled());
        assert!(!tracing::enabled!(tracing::Level::DEBUG));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        tracing::info!("first");
    });
    assert_eq!(shown, ["WARN early"]);
    assert_eq!(vestal_testkit::files::names(dir.path()), ["agent.log"]);
}

#[test]
fn an_echo_is_the_very_line_of_the_file_and_replaces_what_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let (shown, echoed) = with_layer(LevelFilter::DEBUG, true, dir.path(), |begin| {
        begin();
        tracing::info!("one");
        tracing::warn!("two\nlines");
    });
    assert_eq!(shown, Vec::<String>::new());
    assert_eq!(echoed.concat(), std::fs::read_to_string(dir.path().join("agent.log")).unwrap());
    assert_eq!(entries(dir.path().join("errors.log")).len(), 1);
}
