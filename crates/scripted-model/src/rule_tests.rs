use serde_json::json;

use super::{RequestMatch, Rule};
use crate::reply::Reply;
use crate::request::tests::{after_two_tools, request};

fn when(conditions: super::RuleConditions) -> RequestMatch {
    conditions.reply(Reply::text("")).when
}

#[test]
fn a_rule_on_the_user_is_silent_once_a_tool_answered() {
    let rule = when(Rule::when_user_contains("hostname"));
    let asked = request(
        "/v1/messages",
        json!({"messages": [
            {"role": "user", "content": "the hostname?"},
        ]}),
    );
    assert!(rule.holds_for(&asked));
    for answered in after_two_tools() {
        assert!(!rule.holds_for(&answered));
        assert!(
            when(Rule::when_user_contains("hostname").after_any_tool_results())
                .holds_for(&answered)
        );
    }
}

#[test]
fn rules_on_tool_results_count_and_read_those_of_this_turn() {
    for answered in after_two_tools() {
        assert!(when(Rule::after_tool_results(2)).holds_for(&answered));
        assert!(!when(Rule::after_tool_results(3)).holds_for(&answered));
        assert!(when(Rule::after_tool_result_contains("lantern")).holds_for(&answered));
        assert!(!when(Rule::after_tool_result_contains("old result")).holds_for(&answered));
    }
}

#[test]
fn every_condition_of_a_rule_must_hold() {
    let [openai, anthropic] = after_two_tools();
    let both = when(
        Rule::after_tool_result_contains("up")
            .when_user_contains("host")
            .when_model("m")
            .when_system_contains("brief")
            .when_api(crate::Api::OpenAi),
    );
    assert!(both.holds_for(&openai));
    assert!(!both.holds_for(&anthropic));
    assert!(!when(Rule::after_tool_result_contains("up").when_model("other")).holds_for(&openai));
    assert!(!when(Rule::always().when_system_contains("long")).holds_for(&openai));
}
