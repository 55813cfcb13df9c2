//! What is asked, and how an answer is read.

use std::fmt::Write as _;

use vestal_agent::keys;
use vestal_agent::settings::{ProviderCandidate, key_owner};
use vestal_config::{AnyKey as _, Override, Settings};
use vestal_model::ModelInfo;

use super::matching;
use crate::console::{Console, text};
use crate::error::CommandFailure;

/// Where a server on this machine most often is.
const USUAL_ADDRESS: &str = "http://127.0.0.1:11434/v1";

/// Models that are listed at once.
const SHOWN: usize = 20;

pub(super) struct SetupQuestions<'a> {
    pub(super) console: Console,
    pub(super) settings: &'a Settings,
}

/// A provider's key.
#[derive(Clone)]
pub(super) enum ProviderKey {
    /// It wants none.
    None,
    /// One that is in the environment or in `.env`.
    Known(String),
    /// One that was just given.
    New(String),
}

impl ProviderKey {
    pub(super) fn get(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Known(key) | Self::New(key) => Some(key),
        }
    }
}

/// What is done about something that did not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterFailure {
    /// It is tried again.
    Again,
    /// The server's address is asked for again.
    Address,
    /// The first question is asked again.
    Other,
    /// It is kept as it is.
    Anyway,
    /// Nothing is kept.
    Leave,
}

impl SetupQuestions<'_> {
    /// Asks for the provider; none when there is no answer.
    pub(super) fn provider(&self) -> Result<Option<ProviderCandidate>, CommandFailure> {
        let mut candidates = ProviderCandidate::built_in();
        let mut words = String::from("Who serves the model?\n");
        for (number, candidate) in (1..).zip(&candidates) {
            let about = match self.known_key(candidate)? {
                Some(_) => format!("{} is set", candidate.variable),
                None => "needs a key".to_owned(),
            };
            // Writing to a string cannot fail.
            writeln!(words, "  {number}) {:<12} {about}", candidate.provider).ok();
        }
        let own = candidates.len() + 1;
        let other = "another server that speaks the OpenAI API: Ollama, vLLM, llama.cpp, …";
        writeln!(words, "  {own}) {other}").ok();
        self.console.write_question(&words);
        loop {
            let Some(answer) = self.console.ask_for(&format!("choose [1-{own}]:")) else {
                return Ok(None);
            };
            let by_number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let by_name =
                candidates.iter().position(|one| one.provider.eq_ignore_ascii_case(&answer));
            match by_number.or(by_name) {
                Some(place) if place < candidates.len() => {
                    return Ok(Some(candidates.swap_remove(place)));
                }
                Some(place) if place + 1 == own => return Ok(self.address(USUAL_ADDRESS)),
                // An address says by itself what is meant.
                _ if answer.starts_with("http") => {
                    if let Some(address) = self.checked_address(&answer) {
                        return Ok(Some(ProviderCandidate::at(address)));
                    }
                }
                _ => self.console.write_question("a number of the list, please\n"),
            }
        }
    }

    /// Asks for the address of a server, which is `usual` unless somebody says
    /// otherwise; none when there is no answer.
    pub(super) fn address(&self, usual: &str) -> Option<ProviderCandidate> {
        loop {
            let answer = self.console.ask_for(&format!("its address [{usual}]:"))?;
            let answer = if answer.is_empty() { usual.to_owned() } else { answer };
            if let Some(address) = self.checked_address(&answer) {
                return Some(ProviderCandidate::at(address));
            }
        }
    }

    /// Returns an address that the settings would take.
    fn checked_address(&self, text: &str) -> Option<String> {
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let key = keys::MODEL_BASE_URL.name();
        let read =
            Override::parse(&vestal_api::schema(), &format!("{key}={text}")).and_then(|given| {
                let settings = Settings::load(
                    &vestal_api::schema(),
                    self.settings.home().clone(),
                    self.settings.environment().clone(),
                    vec![given],
                );
                settings.get(&keys::MODEL_BASE_URL)
            });
        match read {
            Ok(read) => read.value.get().map(str::to_owned),
            Err(error) => {
                self.console.warn(&error.to_string());
                None
            }
        }
    }

    /// Returns the key: the one that is known, else one that is asked for; none
    /// when there is no answer.
    pub(super) fn key(
        &self,
        candidate: &ProviderCandidate,
    ) -> Result<Option<ProviderKey>, CommandFailure> {
        match self.known_key(candidate)? {
            Some(known) => Ok(Some(ProviderKey::Known(known))),
            None => self.new_key(candidate),
        }
    }

    /// Asks for a key, whichever is known; none when there is no answer.
    pub(super) fn new_key(
        &self,
        candidate: &ProviderCandidate,
    ) -> Result<Option<ProviderKey>, CommandFailure> {
        let label = candidate.label();
        let question = if candidate.needs_key {
            format!("key for {label} (it is not shown):")
        } else {
            "its key, if it wants one (it is not shown):".to_owned()
        };
        loop {
            let Some(key) = self.console.ask_secret(&question) else { return Ok(None) };
            if key.is_empty() && candidate.needs_key {
                let message = format!("{label} refuses requests without a key; Ctrl-C quits\n");
                self.console.write_question(&message);
            } else if key.is_empty() {
                return Ok(Some(ProviderKey::None));
            } else if key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Ok(Some(ProviderKey::New(key)));
            } else {
                // Shown it is not: it may be a key with something beside it.
                self.console.write_question("a key has no blanks and only plain letters and signs; was something else pasted?\n");
            }
        }
    }

    /// Returns the key of a provider that the settings have. One that they have
    /// for another server is not shown to this one.
    fn known_key(&self, candidate: &ProviderCandidate) -> Result<Option<String>, CommandFailure> {
        if candidate.may_take(&key_owner(self.settings)?) {
            let own = self.settings.get(&keys::MODEL_API_KEY)?.value;
            if let Some(own) = own.expose() {
                return Ok(Some(own.to_owned()));
            }
        }
        if !candidate.is_built_in() {
            return Ok(None);
        }
        let Some(variable) = candidate.variable() else { return Ok(None) };
        let found = self
            .settings
            .variable(&variable)
            .map_err(|error| CommandFailure::new(format!("failed to read the keys: {error}")))?;
        Ok(found.and_then(|found| found.value.into_string().ok()).filter(|key| !key.is_empty()))
    }

    /// Asks for the model; none when there is no answer.
    pub(super) fn model(
        &self,
        candidate: &ProviderCandidate,
        offered: &[ModelInfo],
    ) -> Option<String> {
        let mut shown: Vec<&ModelInfo> = offered.iter().collect();
        self.show(candidate, &shown);
        loop {
            let question = match shown.as_slice() {
                [] => "name of the model:".to_owned(),
                [only] => format!("model [{}]:", text::printable(&only.id)),
                _ => "model (a number, its name, or a part of it):".to_owned(),
            };
            let answer = self.console.ask_for(&question)?;
            if answer.is_empty() {
                if let [only] = shown.as_slice() {
                    return Some(only.id.clone());
                }
                continue;
            }
            let by_number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            if let Some(chosen) = by_number.and_then(|place| shown.get(place)) {
                return Some(chosen.id.clone());
            }
            if offered.is_empty() {
                return Some(answer);
            }
            match matching(offered, &answer).as_slice() {
                [] => {
                    let message = format!("{} lists no such model", candidate.label());
                    if self.console.ask(&format!("{message}; take {answer} all the same?")) {
                        return Some(answer);
                    }
                }
                [only] => return Some(only.id.clone()),
                [first, ..] if first.id == answer => return Some(answer),
                several => {
                    shown = several.to_vec();
                    self.show(candidate, &shown);
                }
            }
        }
    }

    fn show(&self, candidate: &ProviderCandidate, models: &[&ModelInfo]) {
        if models.is_empty() {
            return;
        }
        let count = text::count(models.len(), "model");
        let mut words = format!("{} has {count}:\n", candidate.label());
        for (number, model) in (1..).zip(models.iter().take(SHOWN)) {
            writeln!(words, "  {number:>2}) {}", text::printable(&model.id)).ok();
        }
        if models.len() > SHOWN {
            writeln!(words, "  … and {} more", models.len() - SHOWN).ok();
        }
        self.console.write_question(&words);
    }

    /// Asks what to do about something that did not work. An address that
    /// somebody typed can be typed again.
    pub(super) fn after_failure(&self, candidate: &ProviderCandidate) -> AfterFailure {
        let is_typed = !candidate.is_built_in();
        let change = if is_typed { "[c]hange the address, " } else { "" };
        let question =
            format!("[a]gain, {change}[o]ther provider, [k]eep it all the same, [l]eave:");
        loop {
            let Some(answer) = self.console.ask_for(&question) else {
                return AfterFailure::Leave;
            };
            match answer.to_ascii_lowercase().as_str() {
                "a" | "again" | "" => return AfterFailure::Again,
                "c" | "change" | "address" if is_typed => return AfterFailure::Address,
                "o" | "other" => return AfterFailure::Other,
                "k" | "keep" => return AfterFailure::Anyway,
                "l" | "leave" => return AfterFailure::Leave,
                _ => {}
            }
        }
    }
}
