//! What follows `/reasoning`, the same in every front end.

use vestal_model::{ReasoningEffort, ReasoningOptions};

/// Tokens that a model may think with at least, and at most.
const BUDGET: std::ops::RangeInclusive<u64> = 1024..=1_000_000;

/// What is asked for by what follows `/reasoning`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningRequest {
    /// Show how much the model thinks.
    Show,
    /// Go by the settings again.
    Configured,
    /// Let it think so much from now on.
    Set(ReasoningOptions),
}

/// Reads what follows `/reasoning`; `now` is how much the model thinks, of which a word or a number
/// alone changes its part.
pub fn read_reasoning(words: &[&str], now: ReasoningOptions) -> Result<ReasoningRequest, String> {
    match words {
        [] => return Ok(ReasoningRequest::Show),
        ["default" | "configured"] => return Ok(ReasoningRequest::Configured),
        ["auto"] => return Ok(ReasoningRequest::Set(ReasoningOptions::AUTO)),
        _ => {}
    }
    let mut options = now;
    for word in words {
        if *word == "auto" {
            options.effort = None;
        } else if let Some(effort) = ReasoningEffort::from_word(word) {
            options.effort = Some(effort);
            // A number would go before the word.
            options.budget_tokens = None;
        } else {
            options.budget_tokens = Some(read_budget(word)?);
        }
    }
    Ok(ReasoningRequest::Set(options))
}

/// Reads a number of tokens: `16000`, `16,000`, `16k`.
fn read_budget(word: &str) -> Result<u64, String> {
    let plain = word.replace([',', '_'], "").to_ascii_lowercase();
    let (digits, unit) = match plain.strip_suffix('k') {
        Some(digits) => (digits, 1000),
        None => (plain.as_str(), 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match number {
        Some(number) if BUDGET.contains(&number) => Ok(number),
        Some(number) => Err(format!(
            "{number} is no number of tokens to think with: {} to {}",
            BUDGET.start(),
            BUDGET.end()
        )),
        None => {
            let words: Vec<&str> = ReasoningEffort::ALL.iter().map(|it| it.as_str()).collect();
            Err(format!(
                "{word:?} is neither an effort (auto, {}) nor a number of tokens",
                words.join(", ")
            ))
        }
    }
}

/// Says in a few words how much a model thinks: `high`, `auto, 16000 tokens`.
pub fn describe_reasoning(options: ReasoningOptions) -> String {
    let effort = options.effort.map_or("auto", ReasoningEffort::as_str);
    match options.budget_tokens {
        Some(budget) => format!("{effort}, {budget} tokens"),
        None => effort.to_owned(),
    }
}

/// Says in a line what an effort means.
pub const fn about_effort(effort: ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::None => "it does not think before it answers",
        ReasoningEffort::Minimal => "as little as it can",
        ReasoningEffort::Low => "a little",
        ReasoningEffort::Medium => "as much as most tasks need",
        ReasoningEffort::High => "much",
        ReasoningEffort::XHigh => "as much as it can",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(words: &[&str], now: ReasoningOptions) -> ReasoningOptions {
        match read_reasoning(words, now) {
            Ok(ReasoningRequest::Set(options)) => options,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn words_and_numbers_change_their_part() {
        let auto = ReasoningOptions::AUTO;
        let high = ReasoningOptions::effort(ReasoningEffort::High);
        assert_eq!(set(&["High"], auto), high);
        let budget = ReasoningOptions { budget_tokens: Some(16_000), ..high };
        assert_eq!(set(&["16k"], high), budget);
        assert_eq!(set(&["16,000"], high), budget);
        assert_eq!(set(&["high", "16000"], auto), budget);
        assert_eq!(set(&["high"], budget), high, "the number would go before the word");
        assert_eq!(set(&["auto"], budget), auto);
        assert_eq!(read_reasoning(&[], auto), Ok(ReasoningRequest::Show));
        assert_eq!(read_reasoning(&["default"], auto), Ok(ReasoningRequest::Configured));
    }

    #[test]
    fn what_is_neither_is_refused_with_what_there_is() {
        let refused = |word: &str| read_reasoning(&[word], ReasoningOptions::AUTO).unwrap_err();
        assert_eq!(
            refused("much"),
            "\"much\" is neither an effort (auto, none, minimal, low, medium, high, xhigh) nor a number of tokens"
        );
        assert_eq!(refused("100"), "100 is no number of tokens to think with: 1024 to 1000000");
        assert!(refused("99999999999999999999k").contains("neither"));
    }

    #[test]
    fn it_is_described_in_a_few_words() {
        assert_eq!(describe_reasoning(ReasoningOptions::AUTO), "auto");
        let low = ReasoningOptions::effort(ReasoningEffort::Low);
        assert_eq!(describe_reasoning(low), "low");
        let budget = ReasoningOptions { budget_tokens: Some(2048), ..low };
        assert_eq!(describe_reasoning(budget), "low, 2048 tokens");
    }
}
