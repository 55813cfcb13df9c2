//! The program `vestal`: it parses, calls the libraries and prints. Here: from the command line to
//! the exit code.

mod agent;
mod cli;
mod commands;
mod confirm;
mod console;
mod context;
mod error;
mod exit;
mod find;
mod follow;
mod interact;
mod reference;
mod transfer;
mod values;

use std::panic::PanicHookInfo;
use std::pin::Pin;
use std::process::ExitCode;

use vestal_config::Environment;

use crate::cli::Verb;
use crate::commands::{
    acp, chat, completions, config, conversations, cp, cron, dashboard, doctor, gateway, inspect,
    jobs, kanban, lifecycle, logs, mcp, memory, migrate, model, operations, profile, prune, ps,
    rebuild, restore, run, serve, shell, skills, snapshots, supervise, sync, usage,
};
use crate::console::{
    Console, keep_supervisor_reports, restore_messages, show_reports, status, terminal,
};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Worker threads of a chat, besides the one that draws, and of a server.
const THREADS: usize = 2;

fn main() -> ExitCode {
    run().into()
}

/// Runs the program and returns how it ends.
fn run() -> Exit {
    let environment = Environment::capture();
    let console = Console::new(&environment);
    std::panic::set_hook(Box::new(move |info| explain_panic(console, info)));
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => return console.explain_usage(&error),
    };
    show_reports(console, cli.global.verbose);
    // No subcommand on a terminal means chat.
    let verb = match cli.verb {
        None if chat::is_possible(&environment) => Some(Verb::Chat(chat::ChatArgs::default())),
        verb => verb,
    };
    let Some(verb) = verb else {
        return done(
            console,
            console.print_styled(&cli::command().render_help()).map(|()| Exit::Success),
        );
    };
    // `run` and `chat` report failures in their own JSON object.
    let json = cli.global.json && !matches!(verb, Verb::Run(_) | Verb::Chat(_));
    let context = Context::new(console, environment, cli.global);
    begin_log(&context, &verb);
    // These commands report unknown names themselves.
    if !matches!(verb, Verb::Config(_) | Verb::Doctor(_) | Verb::Completions(_)) {
        context.warn_of_unknown_names();
    }
    let exit = match start(&context, verb) {
        Ok(Err(failure)) if json => explain_in_json(console, &failure),
        Ok(result) => done(console, result),
        Err(error) => done(console, Err(CommandFailure::io("start the runtime", &error))),
    };
    terminal::restore();
    status::clear();
    exit
}

/// Begins the logs of processes that run in the background, where nobody sees messages.
fn begin_log(context: &Context, verb: &Verb) {
    match verb {
        Verb::Gateway(args) if args.is_supervised() => agent::begin_supervised_log(context),
        Verb::Dashboard(args) if args.is_supervised() => agent::begin_supervised_log(context),
        Verb::Supervise(args) if args.is_detached() => {
            if let Ok(profiles) = context.profiles() {
                keep_supervisor_reports(&profiles.root().logs_dir());
            }
        }
        _ => {}
    }
}

/// Runs a command in a runtime with one thread, because most commands only wait. A chat
/// has more, so that no key waits for a turn, and so has a server, so that no request
/// waits for another one.
fn start(context: &Context, verb: Verb) -> std::io::Result<Result<Exit, CommandFailure>> {
    use tokio::runtime::Builder;
    let is_threaded = match &verb {
        Verb::Chat(args) => args.is_interactive(context.environment()),
        Verb::Gateway(args) => args.is_server(),
        Verb::Dashboard(args) => args.is_server(),
        Verb::Serve(_) | Verb::Acp(_) => true,
        Verb::Mcp(args) => args.is_server(),
        _ => false,
    };
    let mut builder =
        if is_threaded { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    if is_threaded {
        builder.worker_threads(THREADS);
    }
    let runtime = builder.enable_all().build()?;
    let result = runtime.block_on(dispatch(context, verb));
    // A thread may still wait for standard input that never comes.
    runtime.shutdown_background();
    Ok(result)
}

/// Carries out a command. The future is boxed so that its body, with all commands, is
/// compiled once and not for each caller.
pub(crate) fn dispatch(
    context: &Context,
    verb: Verb,
) -> Pin<Box<dyn Future<Output = Result<Exit, CommandFailure>> + '_>> {
    Box::pin(async move {
        match verb {
            Verb::Run(args) => run::run(context, args).await,
            Verb::Shell(args) => shell::run(context, args).await,
            Verb::Chat(args) => chat::run(context, args).await,
            Verb::Ps(args) => ps::run(context, args).await,
            Verb::Inspect(args) => inspect::run(context, args).await,
            Verb::Stats(args) => ps::stats(context, args).await,
            Verb::Jobs(args) => jobs::run(context, args).await,
            Verb::Logs(args) => logs::run(context, args).await,
            Verb::Wait(args) => jobs::wait(context, args).await,
            Verb::Kill(args) => jobs::kill(context, args).await,
            Verb::Write(args) => jobs::write(context, args).await,
            Verb::Cp(args) => cp::run(context, args).await,
            Verb::Snapshot(args) => Box::pin(snapshots::snapshot(context, args)).await,
            Verb::Snapshots(args) => snapshots::run(context, args).await,
            Verb::Restore(args) => Box::pin(restore::run(context, args)).await,
            Verb::Fork(args) => Box::pin(restore::fork(context, args)).await,
            Verb::Rebuild(args) => Box::pin(rebuild::run(context, args)).await,
            Verb::Sync(args) => Box::pin(sync::run(context, args)).await,
            Verb::Touch(args) => lifecycle::touch(context, args).await,
            Verb::Stop(args) => lifecycle::stop(context, args).await,
            Verb::Rm(args) => lifecycle::rm(context, args).await,
            Verb::Prune(args) => prune::run(context, args).await,
            Verb::Operations(args) => operations::run(context, args).await,
            Verb::Conversations(args) => conversations::run(context, args).await,
            Verb::Cron(args) => Box::pin(cron::run(context, args)).await,
            Verb::Dashboard(args) => Box::pin(dashboard::run(context, args)).await,
            Verb::Gateway(args) => Box::pin(gateway::run(context, args)).await,
            Verb::Serve(args) => Box::pin(serve::run(context, &args)).await,
            Verb::Acp(args) => Box::pin(acp::run(context, args)).await,
            Verb::Supervise(args) => Box::pin(supervise::run(context, &args)).await,
            Verb::Kanban(args) => Box::pin(kanban::run(context, args)).await,
            Verb::Mcp(args) => Box::pin(mcp::run(context, args)).await,
            Verb::Memory(args) => memory::run(context, args),
            Verb::Migrate(args) => Box::pin(migrate::run(context, args)).await,
            Verb::Model(args) => model::run(context, args).await,
            Verb::Profile(args) => profile::run(context, args).await,
            Verb::Skills(args) => skills::run(context, args).await,
            Verb::Usage(args) => usage::run(context, &args).await,
            Verb::Config(args) => config::run(context, args),
            Verb::Doctor(args) => doctor::run(context, args).await,
            Verb::Completions(args) => completions::run(context, &args).await,
        }
    })
}

fn done(console: Console, result: Result<Exit, CommandFailure>) -> Exit {
    result.unwrap_or_else(|failure| {
        console.explain(&failure);
        failure.exit()
    })
}

/// Prints the error for people and, on standard output, as the JSON object that was asked
/// for.
fn explain_in_json(console: Console, failure: &CommandFailure) -> Exit {
    console.explain(failure);
    if let Some(error) = failure.view()
        && let Err(unprinted) = console.print_json(&error)
    {
        return unprinted.exit();
    }
    failure.exit()
}

/// Reports a panic in one line, restores the terminal and ends the program with the exit
/// code of other failures.
fn explain_panic(console: Console, info: &PanicHookInfo<'_>) {
    if vestal_runtime::panics::is_contained() {
        let reason = info.payload_as_str().unwrap_or("no reason given");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a request has met a bug in vestal: {reason}");
        return;
    }
    vestal_tui::terminal::restore();
    restore_messages();
    terminal::restore();
    let reason = info.payload_as_str().unwrap_or("no reason given");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    console.explain(
        &CommandFailure::new(format!("this is a bug in vestal {}: {reason} ({place})", env!("CARGO_PKG_VERSION")))
            .advise("please report this line and the command you ran; sandboxes and their jobs are not affected"),
    );
    std::process::exit(Exit::Failed.code().into());
}
