use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::DelegateTask;
use crate::delegation::{Assignment, ChildReport, Delegates};
use crate::event::EventSink;
use crate::testing::AgentFixture;

/// Takes all work and reports on it.
#[derive(Default)]
struct Willing(Mutex<Vec<Assignment>>);

#[async_trait]
impl Delegates for Willing {
    async fn delegate(
        &self,
        parts: Vec<Assignment>,
        _: &EventSink,
        _: &CancellationToken,
    ) -> Result<Vec<ChildReport>, String> {
        self.0.lock().unwrap().extend(parts.clone());
        let report = |part: Assignment| ChildReport {
            status: "completed".to_owned(),
            summary: format!("did {}", part.goal),
            error: None,
            api_calls: 2,
            conversation: None,
            duration_seconds: 0.5,
        };
        Ok(parts.into_iter().map(report).collect())
    }
}

#[tokio::test]
async fn one_goal_or_several_tasks_are_given_away_and_reported_on() {
    let willing = Arc::new(Willing::default());
    let stage = AgentFixture::new().with_delegates(willing.clone());
    let one = stage
        .call(&DelegateTask, json!({"goal": "one", "context": "c", "toolsets": ["file"]}))
        .await;
    assert_eq!(one["results"].as_array().unwrap().len(), 1);
    assert_eq!(one["results"][0]["summary"], "did one");
    assert_eq!(
        (&one["results"][0]["task_index"], &one["results"][0]["status"]),
        (&json!(0), &json!("completed"))
    );
    assert!(one["total_duration_seconds"].is_number());
    let several =
        json!({"context": "for all", "tasks": [{"goal": "two", "context": "own"}, "three"]});
    assert_eq!(stage.call(&DelegateTask, several).await["results"][1]["summary"], "did three");
    let part = |goal: &str, context: &str, toolsets: &[&str]| Assignment {
        goal: goal.to_owned(),
        context: Some(context.to_owned()),
        toolsets: toolsets.iter().map(|set| (*set).to_owned()).collect(),
    };
    let given = willing.0.lock().unwrap().clone();
    assert_eq!(
        given,
        [part("one", "c", &["file"]), part("two", "own", &[]), part("three", "for all", &[])]
    );
}

#[tokio::test]
async fn work_that_cannot_be_given_away_is_an_error() {
    let stage = AgentFixture::new();
    let many = vec![json!({"goal": "x"}); 17];
    for (arguments, complaint) in [
        (json!({}), "either `goal` or `tasks` is required"),
        (json!({"goal": " "}), "either `goal` or `tasks` is required"),
        (json!({"tasks": [{"context": "x"}]}), "`goal` is required"),
        (json!({"tasks": [[1]]}), "each of `tasks` must be an object"),
        (json!({"tasks": many}), "at most 16 entries, got 17"),
        (json!({"goal": "x"}), "no agent is available to delegate to"),
    ] {
        let output = stage.output(&DelegateTask, arguments).await;
        assert!(output.is_error && output.content.contains(complaint), "{}", output.content);
    }
}
