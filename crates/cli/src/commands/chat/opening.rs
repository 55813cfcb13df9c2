//! Opens conversations as the settings and the command line say.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vestal_agent::{Agent, Conversation, Human, Opening, Registry, Selection, Start};
use vestal_config::{Settings, keys};
use vestal_conversations::{ConversationId, Title};
use vestal_model::Endpoint;
use vestal_sandbox::{Overrides, Task};

use crate::agent::{self, Workplace};
use crate::cli::Wanted;
use crate::context::Context;
use crate::error::Failure;
use crate::suggest;

/// What the store knows a conversation's place of work by.
pub(crate) const PLACE: &str = "place";

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Wish {
    pub(super) which: Which,
    /// `MODEL` or `PROVIDER:MODEL`.
    pub(super) model: Option<String>,
    pub(super) title: Option<String>,
    pub(super) place: WishedPlace,
    pub(super) toolsets: Option<Vec<String>>,
    pub(super) max_turns: Option<u32>,
}

/// Which conversation.
#[derive(Debug, Clone, Default)]
pub(super) enum Which {
    #[default]
    New,
    /// The one used last.
    Latest,
    /// The one that a person means by this.
    Named(String),
    /// This one.
    Id(ConversationId),
}

/// Where it is to work.
#[derive(Debug, Clone, Default)]
pub(super) enum WishedPlace {
    /// Where it worked before, else where everybody does.
    #[default]
    Own,
    /// Where another conversation works.
    Same(Place),
    /// As the command line says.
    Wanted { task: Option<Task>, wanted: Wanted },
}

/// The sandbox that a conversation works in, so that it is found again
/// wherever the conversation is gone on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) task: String,
    #[serde(default)]
    pub(super) overrides: Overrides,
}

impl Place {
    pub(super) fn new(task: &Task, overrides: Overrides) -> Self {
        Self { task: task.to_string(), overrides }
    }

    fn is_usual(&self) -> bool {
        self.overrides.is_empty() && self.task == Task::default_task().as_str()
    }
}

/// A conversation that was opened.
pub(super) struct OpenedHere {
    pub(super) conversation: Conversation,
    pub(super) place: Place,
    pub(super) is_resumed: bool,
    /// What a person should know.
    pub(super) notices: Vec<String>,
}

/// Opens conversations of one agent.
pub(super) struct Opener<'a> {
    pub(super) context: &'a Context,
    pub(super) settings: &'a Arc<Settings>,
    pub(super) agent: &'a Agent,
}

impl Opener<'_> {
    pub(super) async fn open(
        &self,
        wish: &Wish,
        human: Arc<dyn Human>,
    ) -> Result<OpenedHere, Failure> {
        let mut notices = Vec::new();
        let (agent, settings) = (self.agent, self.settings);
        let resumed = self.resumed(&wish.which).await?;
        let place = self.place(wish, resumed.as_ref()).await?;
        // As they are by now: a chat goes on for days, and they may be changed in it.
        let today = settings.reload();
        let configured = agent::endpoints(&today, wish.model.as_deref());
        let chain = match (&resumed, &wish.model) {
            (Some(id), None) => self.chain_of(id, &today, configured, &mut notices).await?,
            _ => configured?,
        };
        let task: Task = place.task.parse().unwrap_or_else(|_| Task::default_task());
        let Workplace { cwd, prompt } =
            Workplace::find(agent.engine(), settings, &place.overrides, human.is_present())?;
        let is_resumed = resumed.is_some();
        let opening = Opening {
            start: match resumed {
                Some(id) => Start::Resume(id),
                None => Start::New {
                    source: "cli".to_owned(),
                    title: wish.title.clone().map(Title::Given),
                },
            },
            chain,
            task,
            isolation: settings.get(&keys::ISOLATION)?.value,
            overrides: place.overrides.clone(),
            human,
            selection: selection(&today, agent.tools(), wish.toolsets.as_deref())?,
            prompt,
            cwd,
            max_turns: wish.max_turns,
        };
        let conversation = agent.open(opening).await?;
        self.settle(wish, &conversation, &place, is_resumed).await?;
        Ok(OpenedHere { conversation, place, is_resumed, notices })
    }

    /// Returns the conversation to go on with, if one is.
    async fn resumed(&self, which: &Which) -> Result<Option<ConversationId>, Failure> {
        let store = self.agent.store();
        Ok(match which {
            Which::New => None,
            Which::Latest => Some(store.latest().await?),
            Which::Named(wanted) => Some(store.find(wanted).await?),
            Which::Id(id) => Some(id.clone()),
        })
    }

    /// Returns the sandbox to work in: the one asked for, else the one that the
    /// conversation works in.
    async fn place(&self, wish: &Wish, resumed: Option<&ConversationId>) -> Result<Place, Failure> {
        match &wish.place {
            WishedPlace::Same(place) => return Ok(place.clone()),
            WishedPlace::Wanted { task, wanted } => {
                let task = task.clone().unwrap_or_else(Task::default_task);
                return Ok(Place::new(&task, self.context.overrides(wanted)?));
            }
            WishedPlace::Own => {}
        }
        let kept = match resumed {
            Some(id) => self.agent.store().state(id, PLACE).await?,
            None => None,
        };
        let kept = kept.and_then(|kept| serde_json::from_value::<Place>(kept).ok());
        let kept = kept.filter(|place| place.task.parse::<Task>().is_ok());
        Ok(kept.unwrap_or_else(|| Place::new(&Task::default_task(), Overrides::default())))
    }

    /// Returns who is asked in a conversation that is gone on with: the model
    /// it was held with last, as long as that can be asked.
    async fn chain_of(
        &self,
        id: &ConversationId,
        settings: &Settings,
        configured: Result<Vec<Endpoint>, Failure>,
        notices: &mut Vec<String>,
    ) -> Result<Vec<Endpoint>, Failure> {
        let known = self.agent.store().get(id).await?;
        let asks =
            |endpoint: &Endpoint| endpoint.name == known.provider && endpoint.model == known.model;
        let is_asked =
            |chain: &[Endpoint]| known.model.is_empty() || chain.first().is_some_and(asks);
        if configured.as_ref().is_ok_and(|chain| is_asked(chain)) {
            return configured;
        }
        let named = format!("{}:{}", known.provider, known.model);
        match vestal_agent::settings::endpoints(settings, Some(&named)) {
            Ok(chain) if chain.first().is_some_and(asks) => Ok(chain),
            _ => {
                notices
                    .push(format!("{named} cannot be asked any more; asking the configured model"));
                configured
            }
        }
    }

    /// Keeps what was asked for a conversation beside what is said in it.
    async fn settle(
        &self,
        wish: &Wish,
        conversation: &Conversation,
        place: &Place,
        is_resumed: bool,
    ) -> Result<(), Failure> {
        let (store, id) = (self.agent.store(), conversation.id());
        if !matches!(wish.place, WishedPlace::Own) && (is_resumed || !place.is_usual()) {
            let kept = (!place.is_usual()).then(|| serde_json::json!(place));
            store.set_state(id, PLACE, kept.as_ref()).await?;
        }
        if let Some(title) = wish.title.clone().filter(|_| is_resumed) {
            store.set_title(id, &Title::Given(title)).await?;
        }
        Ok(())
    }
}

/// Returns the toolsets that are asked for by name.
pub(super) fn toolsets(
    settings: &Settings,
    wanted: Option<&[String]>,
) -> Result<Vec<String>, Failure> {
    match wanted {
        Some(wanted) => Ok(wanted.to_vec()),
        None => Ok(vestal_agent::settings::selection(settings)?.toolsets),
    }
}

fn selection(
    settings: &Settings,
    tools: &Registry,
    wanted: Option<&[String]>,
) -> Result<Selection, Failure> {
    let selection = vestal_agent::settings::selection(settings)?;
    let Some(wanted) = wanted else {
        return Ok(selection);
    };
    let known = tools.toolsets();
    for name in wanted {
        // Servers may have tools that are not known yet.
        let may_come = name == "mcp" || name.starts_with("mcp-");
        if name != vestal_agent::ALL && !may_come && !known.contains(name.as_str()) {
            let names: Vec<&str> = known.iter().copied().collect();
            let failure = Failure::usage(format!("there is no toolset {name:?}"));
            return Err(match suggest::closest(name, names.iter().copied()) {
                Some(meant) => failure.advise(format!("did you mean {meant}?")),
                None => failure.advise(format!("there are: {}, all", names.join(", "))),
            });
        }
    }
    Ok(Selection { toolsets: wanted.to_vec(), ..selection })
}
