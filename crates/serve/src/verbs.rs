//! Verbs of the command line that are typed in a conversation, as in `/kanban list`.

use async_trait::async_trait;

/// What a verb printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbOutput {
    /// What it printed, data and messages together.
    pub text: String,
    /// Whether it succeeded.
    pub is_success: bool,
}

/// Carries out verbs of the command line. The program around a server has them.
#[async_trait]
pub trait Verbs: Send + Sync {
    /// Runs a verb, such as `["kanban", "list"]`, without a terminal, or says why it cannot.
    async fn run(&self, words: Vec<String>) -> Result<VerbOutput, String>;

    /// Returns completions for the last word of a verb.
    fn complete(&self, words: &[String]) -> Vec<String> {
        let _ = words;
        Vec::new()
    }
}

/// No verbs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoVerbs;

#[async_trait]
impl Verbs for NoVerbs {
    async fn run(&self, words: Vec<String>) -> Result<VerbOutput, String> {
        Err(format!("use the command line: vestal {}", words.join(" ")))
    }
}
