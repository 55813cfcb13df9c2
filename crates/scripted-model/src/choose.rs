//! Which reply a request gets.

use std::collections::VecDeque;

use crate::echo;
use crate::reply::Reply;
use crate::request::Request;
use crate::rule::Rule;
use crate::script::Script;

/// What is left of a script.
pub(crate) struct Chooser {
    rules: Vec<Rule>,
    replies: VecDeque<Reply>,
    echo: bool,
}

impl Chooser {
    pub(crate) fn new(script: Script) -> Self {
        Self { rules: script.rules, replies: script.replies, echo: script.echo }
    }

    /// Adds a reply to the end of the ordered list.
    pub(crate) fn push(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    /// Returns the reply to a request: of the first rule that applies, else the
    /// next of the ordered list, else the echo, else none.
    pub(crate) fn choose(&mut self, request: &Request) -> Option<Reply> {
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
        self.replies.pop_front().or_else(|| self.echo.then(|| echo::reply(request)))
    }
}
