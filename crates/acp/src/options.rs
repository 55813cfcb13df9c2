//! What an editor offers to choose beside the words: the mode, the model, and how much it thinks.

use std::sync::{Arc, Weak};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vestal_agent::approvals::Guard;
use vestal_agent::slash::{about_effort, describe_reasoning};
use vestal_agent::{Conversation, ConversationMode, ModeSwitch};
use vestal_model::{Freshness, ReasoningEffort, ReasoningOptions};
use vestal_runtime::{endpoints, list_models};

use crate::error::{AcpError, shown};
use crate::limits::MODELS;
use crate::protocol::{ConfigChoice, ConfigOption, SessionUpdate};
use crate::session::EditorSession;
use crate::turn::closed;

const MODE: &str = "mode";
const MODEL: &str = "model";
const THOUGHT: &str = "thought_level";

/// The value that leaves to the provider how much its model thinks.
const AUTO: &str = "auto";

/// How a session works, as an editor shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditorMode {
    /// A person is asked before what is dangerous.
    Ask,
    /// Nobody is asked.
    Yolo,
    /// Nothing is changed before a person has approved a plan.
    Plan,
}

impl EditorMode {
    const ALL: [Self; 3] = [Self::Ask, Self::Yolo, Self::Plan];

    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Yolo => "yolo",
            Self::Plan => "plan",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Ask => "Ask",
            Self::Yolo => "Don't ask",
            Self::Plan => "Plan",
        }
    }

    const fn about(self) -> &'static str {
        match self {
            Self::Ask => "Asks before what is dangerous, as the settings say",
            Self::Yolo => "Does everything that is not forbidden, in this conversation",
            Self::Plan => "Only reads, and presents a plan for approval",
        }
    }

    fn read(id: &str) -> Result<Self, AcpError> {
        Self::ALL.into_iter().find(|mode| mode.id() == id).ok_or_else(|| {
            let ids: Vec<&str> = Self::ALL.iter().map(|mode| mode.id()).collect();
            AcpError::params(format!(
                "there is no mode {:?}; there are {}",
                shown(id),
                ids.join(", ")
            ))
        })
    }
}

/// What the mode of a session consists of. It can be switched while a turn runs.
#[derive(Debug, Clone)]
pub(crate) struct SessionModes {
    guard: Arc<Guard>,
    switch: ModeSwitch,
}

impl SessionModes {
    pub(crate) fn of(conversation: &Conversation) -> Self {
        Self { guard: Arc::clone(conversation.guard()), switch: conversation.mode_switch() }
    }

    pub(crate) fn get(&self) -> EditorMode {
        match self.switch.get() {
            ConversationMode::Plan => EditorMode::Plan,
            ConversationMode::Work if self.guard.is_yolo() => EditorMode::Yolo,
            ConversationMode::Work => EditorMode::Ask,
        }
    }

    /// Switches. It acts at once, also on a question that is being asked.
    pub(crate) fn set(&self, mode: EditorMode) {
        match mode {
            EditorMode::Plan => return self.switch.set(ConversationMode::Plan),
            EditorMode::Ask => self.guard.set_yolo(false),
            EditorMode::Yolo => self.guard.set_yolo(true),
        }
        self.switch.set(ConversationMode::Work);
    }
}

/// What is known of the model of a session without its conversation, in which a turn may run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelState {
    model: String,
    reasoning: ReasoningOptions,
    /// What the providers offer, as far as it is known yet.
    listed: Vec<ConfigChoice>,
    /// The mode that the client was shown last.
    shown_mode: Option<EditorMode>,
}

impl ModelState {
    pub(crate) fn of(conversation: &Conversation) -> Self {
        let mut state = Self::default();
        state.see(conversation);
        state
    }

    /// Takes over what a conversation has now. Returns whether that is new.
    fn see(&mut self, conversation: &Conversation) -> bool {
        let model = conversation.model();
        let model = model.map(|it| format!("{}:{}", it.name, it.model)).unwrap_or_default();
        let reasoning = conversation.reasoning();
        let is_new = (&self.model, self.reasoning) != (&model, reasoning);
        (self.model, self.reasoning) = (model, reasoning);
        is_new
    }

    fn models(&self) -> Vec<ConfigChoice> {
        let mut models = self.listed.clone();
        if !models.iter().any(|choice| choice.value == self.model) {
            models.insert(0, ConfigChoice::new(self.model.clone(), self.model.clone(), None));
        }
        models
    }
}

impl EditorSession {
    /// Returns the modes, for clients that know no options.
    pub(crate) fn modes(&self) -> Value {
        let modes = EditorMode::ALL.map(
            |mode| json!({ "id": mode.id(), "name": mode.name(), "description": mode.about() }),
        );
        json!({ "currentModeId": self.modes.get().id(), "availableModes": modes })
    }

    /// Changes the mode.
    pub(crate) fn set_mode(&self, id: &str) -> Result<(), AcpError> {
        self.modes.set(EditorMode::read(id)?);
        Ok(())
    }

    /// Returns what can be chosen.
    pub(crate) fn config_options(&self) -> Vec<ConfigOption> {
        let modes = EditorMode::ALL.map(|mode| {
            ConfigChoice::new(
                mode.id().to_owned(),
                mode.name().to_owned(),
                Some(mode.about().to_owned()),
            )
        });
        let mode = self.modes.get();
        let (models, reasoning, model) = {
            let mut state = self.lock();
            state.model.shown_mode = Some(mode);
            (state.model.models(), state.model.reasoning, state.model.model.clone())
        };
        let efforts = ReasoningEffort::ALL.iter().map(|effort| {
            let word = effort.as_str().to_owned();
            ConfigChoice::new(word.clone(), word, Some(about_effort(*effort).to_owned()))
        });
        let provider = "as the provider thinks right".to_owned();
        let auto = ConfigChoice::new(AUTO.to_owned(), AUTO.to_owned(), Some(provider));
        vec![
            ConfigOption::select(MODE, "Mode", mode.id(), modes.to_vec()),
            ConfigOption::select(MODEL, "Model", &model, models),
            ConfigOption {
                description: reasoning.budget_tokens.map(|_| describe_reasoning(reasoning)),
                ..ConfigOption::select(
                    THOUGHT,
                    "Thinking",
                    reasoning.effort.map_or(AUTO, ReasoningEffort::as_str),
                    [auto].into_iter().chain(efforts).collect(),
                )
            },
        ]
    }

    /// Changes one of them. The model changes when no turn runs, which is waited for.
    pub(crate) async fn set_option(
        &self,
        token: &CancellationToken,
        id: &str,
        value: &str,
    ) -> Result<(), AcpError> {
        if id == MODE {
            self.set_mode(value)?;
            self.view
                .send(SessionUpdate::CurrentModeUpdate { current_mode_id: self.modes.get().id() });
            return Ok(());
        }
        if ![MODEL, THOUGHT].contains(&id) {
            return Err(AcpError::params(format!(
                "there is no option {:?}; there are {MODE}, {MODEL} and {THOUGHT}",
                shown(id)
            )));
        }
        let mut held = tokio::select! {
            biased;
            () = token.cancelled() => return Err(AcpError::request("cancelled")),
            held = self.conversation.lock() => held,
        };
        let conversation = held.as_mut().ok_or_else(|| closed(self))?;
        if id == MODEL {
            let chain = endpoints(&self.runtime.settings().reload(), Some(value))?;
            conversation.set_chain(chain).await?;
        } else {
            let options = if value == AUTO {
                ReasoningOptions::AUTO
            } else {
                let effort = ReasoningEffort::from_word(value).ok_or_else(|| {
                    AcpError::params(format!("there is no amount of thinking {:?}", shown(value)))
                })?;
                ReasoningOptions { effort: Some(effort), ..ReasoningOptions::AUTO }
            };
            conversation.set_reasoning(Some(options)).await?;
        }
        self.lock().model.see(conversation);
        Ok(())
    }

    /// Tells the client what something else than itself has chosen.
    pub(crate) fn show_mode(&self) {
        self.view.send(SessionUpdate::CurrentModeUpdate { current_mode_id: self.modes.get().id() });
        self.show_options();
    }

    pub(crate) fn show_options(&self) {
        let config_options = self.config_options();
        self.view.send(SessionUpdate::ConfigOptionUpdate { config_options });
    }

    /// Tells the client of another model or mode, if it is one.
    pub(crate) fn see_model(&self, conversation: &Conversation) {
        let is_new = {
            let mut state = self.lock();
            state.model.see(conversation) || state.model.shown_mode != Some(self.modes.get())
        };
        if is_new {
            self.show_options();
        }
    }

    /// Asks the providers what they offer, beside everything else, and tells the client.
    pub(crate) fn list_models(self: &Arc<Self>) {
        let (session, settings) = (Arc::downgrade(self), self.runtime.settings().reload());
        tokio::spawn(async move {
            let Ok(providers) = list_models(&settings, Freshness::Cached).await else { return };
            let offered =
                providers.into_iter().filter_map(|it| Some((it.provider, it.listed.ok()?)));
            let choices = offered.flat_map(|(provider, list)| {
                list.models.into_iter().map(move |model| {
                    let value = format!("{provider}:{}", model.id);
                    let name = model.name.unwrap_or(model.id);
                    let about =
                        model.context_length.map(|tokens| format!("{provider}, {tokens} tokens"));
                    ConfigChoice::new(value, name, about.or_else(|| Some(provider.clone())))
                })
            });
            let choices: Vec<ConfigChoice> = choices.take(MODELS).collect();
            // A session that was closed meanwhile needs none.
            if let Some(session) = Weak::upgrade(&session) {
                let is_new = {
                    let mut state = session.lock();
                    let is_new = state.model.listed != choices;
                    state.model.listed = choices;
                    is_new
                };
                if is_new {
                    session.show_options();
                }
            }
        });
    }
}
