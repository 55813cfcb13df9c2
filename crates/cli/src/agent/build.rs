//! The runtime of the profile, with what this program adds to it.

use std::borrow::Cow;
use std::sync::Arc;

use vestal_agent::redact::Redactor;
use vestal_config::Settings;
use vestal_runtime::Runtime;
use vestal_worker::Desk;

use crate::console::log;
use crate::context::Context;
use crate::error::Failure;

/// Assembles the agent of the profile. `toolsets` are those that somebody asks
/// for by name: only who asks for the board's tools opens the board.
pub(crate) async fn build(
    context: &Context,
    settings: &Settings,
    toolsets: &[String],
) -> Result<Runtime, Failure> {
    let redactor = begin_log(settings)?;
    let mut builder = Runtime::builder(context.engine()?).redactor(redactor).remember_approvals();
    if toolsets.iter().any(|name| name == vestal_worker::tools::TOOLSET) {
        let boards = vestal_board::settings::boards(settings)?;
        let choice =
            vestal_config::keys::board_variable(context.environment()).map(Cow::into_owned);
        let name = settings.home().profile().to_string();
        let desk = Desk::of_person(boards, choice, name);
        builder = builder.tools(|tools| vestal_worker::tools::add_to(tools, &desk));
    }
    Ok(builder.build().await?)
}

/// Begins the program's own log, and returns the redactor that keeps secrets out
/// of it and of whatever else is stored and shown.
pub(crate) fn begin_log(settings: &Settings) -> Result<Arc<Redactor>, Failure> {
    let redactor = vestal_runtime::redactor(settings)?;
    let masking = Arc::clone(&redactor);
    log::begin(&settings.home().logs_dir(), move |line| masking.redact(line).into_owned());
    Ok(redactor)
}
