//! `kanban_submit`: the work is done and should be looked at.

use async_trait::async_trait;
use serde_json::{Map, Value};
use vestal_agent::ToolContext;
use vestal_agent::tools::Arguments;

use super::Trouble;
use super::complete::{Hand, Handed, hand_in, properties, result};
use super::verb::{Effect, Parameters, Verb};
use crate::desk::{Desk, Said};

pub(super) struct Submit;

#[async_trait]
impl Verb for Submit {
    const NAME: &'static str = "kanban_submit";
    const ABOUT: &'static str = "\
Reports that the work is done and hands it over for review, whether or not the task asks for one; it ends the work on the task. \
Use it instead of kanban_complete for changes that somebody should look at before they count. Takes the same as kanban_complete.";
    const EFFECT: Effect = Effect::Decides;

    fn parameters(_desk: &Desk) -> Parameters {
        Parameters { properties: properties(), required: &["summary"] }
    }

    async fn act(
        desk: &Desk,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble> {
        let board = desk.board(arguments).await?;
        let task = desk.task(&board, arguments).await?;
        let by = desk.authority();
        let handed = Handed::read(context, &board, arguments).await?;
        let moved = hand_in(context, &board, &by, &task, handed, Hand::Submit).await?;
        desk.reported(&task, Said::Finished);
        Ok(result(desk, &moved))
    }
}
