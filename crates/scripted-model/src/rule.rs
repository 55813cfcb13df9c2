//! Replies that are chosen by what a request says, so that any number of
//! conversations can share one server.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use crate::reply::ScriptedReply;
use crate::request::{ReceivedRequest, RequestApi};
use crate::script::Script;

/// How many tool results there must be since the last user message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolResults {
    /// Any number, none included.
    Any,
    /// Exactly so many.
    Exactly(usize),
}

/// What a request must be for a rule to apply. Every condition given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RequestMatch {
    pub(crate) user_contains: Option<String>,
    pub(crate) tool_result_contains: Option<String>,
    pub(crate) tool_results: Option<ToolResults>,
    pub(crate) system_contains: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) api: Option<RequestApi>,
}

/// A reply together with the requests it answers.
#[derive(Clone, Debug)]
pub struct ReplyRule {
    pub(crate) when: RequestMatch,
    pub(crate) answer: RuleAnswer,
    pub(crate) times: Option<usize>,
}

/// Where the reply of a rule comes from.
#[derive(Clone)]
pub(crate) enum RuleAnswer {
    Reply(Box<ScriptedReply>),
    Made(Arc<dyn Fn(&ReceivedRequest) -> ScriptedReply + Send + Sync>),
}

impl RuleAnswer {
    pub(crate) fn reply(&self, request: &ReceivedRequest) -> ScriptedReply {
        match self {
            Self::Reply(reply) => reply.as_ref().clone(),
            Self::Made(make) => make(request),
        }
    }
}

impl fmt::Debug for RuleAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(reply) => reply.fmt(formatter),
            Self::Made(_) => formatter.write_str("a reply made per request"),
        }
    }
}

/// A rule whose reply is still to be given.
#[derive(Debug, Clone, Default)]
#[must_use = "a condition without a reply says nothing"]
pub struct RuleConditions {
    when: RequestMatch,
}

impl ReplyRule {
    /// Applies to every request.
    pub fn always() -> RuleConditions {
        RuleConditions::default()
    }

    /// Applies when the last user message contains `text`; without a word on
    /// tool results, only before the first of them.
    pub fn when_user_contains(text: impl Into<String>) -> RuleConditions {
        Self::always().when_user_contains(text)
    }

    /// Applies when the request ends with tool results of which one contains
    /// `text`.
    pub fn after_tool_result_contains(text: impl Into<String>) -> RuleConditions {
        Self::always().after_tool_result_contains(text)
    }

    /// Applies when there are exactly `count` tool results since the last user
    /// message.
    pub fn after_tool_results(count: usize) -> RuleConditions {
        Self::always().after_tool_results(count)
    }

    /// Limits how often the rule applies; later requests go on to the next one.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets the rule apply once.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }
}

impl RuleConditions {
    /// Also wants `text` in the last user message.
    pub fn when_user_contains(mut self, text: impl Into<String>) -> Self {
        self.when.user_contains = Some(text.into());
        self
    }

    /// Also wants `text` in one of the tool results the request ends with.
    pub fn after_tool_result_contains(mut self, text: impl Into<String>) -> Self {
        self.when.tool_result_contains = Some(text.into());
        self
    }

    /// Also wants exactly `count` tool results since the last user message.
    pub fn after_tool_results(mut self, count: usize) -> Self {
        self.when.tool_results = Some(ToolResults::Exactly(count));
        self
    }

    /// Takes any number of tool results: a model that never stops.
    pub fn after_any_tool_results(mut self) -> Self {
        self.when.tool_results = Some(ToolResults::Any);
        self
    }

    /// Also wants `text` in the system prompt.
    pub fn when_system_contains(mut self, text: impl Into<String>) -> Self {
        self.when.system_contains = Some(text.into());
        self
    }

    /// Also wants the request to be for this model.
    pub fn when_model(mut self, model: impl Into<String>) -> Self {
        self.when.model = Some(model.into());
        self
    }

    /// Also wants the request to be made in this API.
    pub fn when_api(mut self, api: RequestApi) -> Self {
        self.when.api = Some(api);
        self
    }

    /// Answers with `reply`.
    pub fn reply(self, reply: ScriptedReply) -> ReplyRule {
        ReplyRule { when: self.when, answer: RuleAnswer::Reply(Box::new(reply)), times: None }
    }

    /// Answers with what `make` returns for the request.
    pub fn reply_with(
        self,
        make: impl Fn(&ReceivedRequest) -> ScriptedReply + Send + Sync + 'static,
    ) -> ReplyRule {
        ReplyRule { when: self.when, answer: RuleAnswer::Made(Arc::new(make)), times: None }
    }
}

impl RequestMatch {
    /// Returns how many tool results are wanted. A rule about what the user
    /// said is about the answer to the user, not about what follows each tool,
    /// unless it says so; else the simplest script would call its tool for ever.
    fn wanted_results(&self) -> ToolResults {
        let about_user_only = self.user_contains.is_some() && self.tool_result_contains.is_none();
        let is_unset = if about_user_only { ToolResults::Exactly(0) } else { ToolResults::Any };
        self.tool_results.unwrap_or(is_unset)
    }

    pub(crate) fn holds_for(&self, request: &ReceivedRequest) -> bool {
        let user = || request.last_user_text().unwrap_or_default();
        self.api.is_none_or(|api| api == request.api())
            && self.model.as_deref().is_none_or(|model| model == request.model())
            && self.user_contains.as_ref().is_none_or(|text| user().contains(text))
            && self.system_contains.as_ref().is_none_or(|text| request.system().contains(text))
            && self.tool_result_contains.as_ref().is_none_or(|text| {
                request.last_tool_results().iter().any(|result| result.contains(text))
            })
            && match self.wanted_results() {
                ToolResults::Any => true,
                ToolResults::Exactly(count) => request.tool_results().len() == count,
            }
    }
}

/// What is left of a script.
pub(crate) struct Chooser {
    rules: Vec<ReplyRule>,
    replies: VecDeque<ScriptedReply>,
    echo: bool,
}

impl Chooser {
    pub(crate) fn new(script: Script) -> Self {
        Self { rules: script.rules, replies: script.replies, echo: script.echo }
    }

    /// Adds a reply to the end of the ordered list.
    pub(crate) fn push(&mut self, reply: ScriptedReply) {
        self.replies.push_back(reply);
    }

    /// Returns the reply to a request: of the first rule that applies, else the
    /// next of the ordered list, else the echo, else none.
    pub(crate) fn choose(&mut self, request: &ReceivedRequest) -> Option<ScriptedReply> {
        let rule = self
            .rules
            .iter_mut()
            .find(|rule| rule.times != Some(0) && rule.when.holds_for(request));
        if let Some(rule) = rule {
            if let Some(times) = &mut rule.times {
                *times -= 1;
            }
            return Some(rule.answer.reply(request));
        }
        self.replies.pop_front().or_else(|| self.echo.then(|| echo_reply(request)))
    }
}

/// What a user message starts with to have the rest run.
const COMMAND: &str = "$ ";

/// Returns the reply to a request: what the tools said, a call of `terminal`
/// for a message that starts with `$ `, else the message itself.
pub(crate) fn echo_reply(request: &ReceivedRequest) -> ScriptedReply {
    let results = request.last_tool_results();
    if !results.is_empty() {
        return ScriptedReply::text(results.join("\n"));
    }
    let text = request.last_user_text().unwrap_or_default();
    match text.strip_prefix(COMMAND) {
        Some(command) => ScriptedReply::tool_call("terminal", json!({"command": command})),
        None => ScriptedReply::text(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ReplyRule, RequestMatch};
    use crate::reply::ScriptedReply;
    use crate::request::tests::{after_two_tools, request};

    fn when(conditions: super::RuleConditions) -> RequestMatch {
        conditions.reply(ScriptedReply::text("")).when
    }

    #[test]
    fn a_rule_on_the_user_is_silent_once_a_tool_answered() {
        let rule = when(ReplyRule::when_user_contains("hostname"));
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
                when(ReplyRule::when_user_contains("hostname").after_any_tool_results())
                    .holds_for(&answered)
            );
        }
    }

    #[test]
    fn rules_on_tool_results_count_and_read_those_of_this_turn() {
        for answered in after_two_tools() {
            assert!(when(ReplyRule::after_tool_results(2)).holds_for(&answered));
            assert!(!when(ReplyRule::after_tool_results(3)).holds_for(&answered));
            assert!(when(ReplyRule::after_tool_result_contains("lantern")).holds_for(&answered));
            assert!(
                !when(ReplyRule::after_tool_result_contains("old result")).holds_for(&answered)
            );
        }
    }

    #[test]
    fn every_condition_of_a_rule_must_hold() {
        let [openai, anthropic] = after_two_tools();
        let both = when(
            ReplyRule::after_tool_result_contains("up")
                .when_user_contains("host")
                .when_model("m")
                .when_system_contains("brief")
                .when_api(crate::RequestApi::OpenAi),
        );
        assert!(both.holds_for(&openai));
        assert!(!both.holds_for(&anthropic));
        assert!(
            !when(ReplyRule::after_tool_result_contains("up").when_model("other"))
                .holds_for(&openai)
        );
        assert!(!when(ReplyRule::always().when_system_contains("long")).holds_for(&openai));
    }
}
