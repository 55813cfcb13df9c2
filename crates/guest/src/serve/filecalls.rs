//! Operations on files, as the loop sees them.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use vestal_wire::{Fault, FaultCode, FileCall, FileReply, Reply, Stream};

use super::channel::Call;
use super::clock::Use;
use super::guest::Guest;
use super::ids::Address;
use super::link::{Link, LinkInput, LinkOutput};
use super::sessions::is_valid_name;
use super::workers::Letter;
use crate::files::{self, Places};
use crate::session::SavedSession;
use crate::state_file;

impl Guest {
    /// Has a worker perform an operation.
    pub(super) fn open_file(&mut self, at: Address, kind: Use, call: FileCall) {
        if call.session.as_deref().is_some_and(|name| !is_valid_name(name)) {
            return self.conns.fault(at, FaultCode::Invalid, "that is no name for a session");
        }
        // Opened here: the worker has the rights of the jobs' user, whom the
        // guest's own files are none of the business of.
        let session =
            call.session.as_deref().map(|name| state_file::open_to_read(&self.sessions.path(name)));
        let home = path(self.settings.home.to_vec());
        let start_dir = call.start_dir.as_ref().unwrap_or(&self.settings.start_dir);
        let start_dir = path(start_dir.to_vec());
        let link = Arc::new(Link::new(at, Arc::clone(&self.mailbox)));
        let worker_link = Arc::clone(&link);
        let begun = self.workers.run(move || {
            let result = base(session, &home, start_dir).and_then(|base| {
                let places = Places { home, base };
                let mut input = LinkInput::new(Arc::clone(&worker_link));
                let mut output = LinkOutput(Arc::clone(&worker_link));
                let cancelled = worker_link.cancelled();
                files::perform(call.op, &places, &mut input, &mut output, cancelled)
            });
            worker_link.finish(result);
        });
        match begun {
            Ok(()) => self.conns.open(at, Call::File(link), kind),
            Err(error) => self.conns.fault(at, FaultCode::System, error.to_string()),
        }
    }

    /// Takes what workers have left.
    pub(super) fn take_letters(&mut self) {
        for letter in self.mailbox.take() {
            match letter {
                Letter::Link(at) => self.advance_file(at),
                Letter::Answer(at, reply) => self.answer_work(at, &reply),
                Letter::Buried(refused) => self.buried(refused),
            }
        }
    }

    /// Sends what an operation has produced, as far as there is room.
    pub(super) fn advance_file(&mut self, at: Address) {
        loop {
            let Some(conn) = self.conns.get_mut(at.conn) else {
                return;
            };
            if !conn.has_room() {
                return;
            }
            let Some(channel) = conn.channels.get(&at.channel) else {
                return;
            };
            let Call::File(link) = &channel.call else {
                return;
            };
            let progress = link.progress();
            if progress.taken > 0 {
                self.conns.taken(at, Stream::Input, progress.taken);
            }
            if let Some(output) = &progress.output {
                self.conns.content(at, output);
            }
            if let Some(result) = progress.result {
                return self.answer_file(at, result);
            }
            if progress.output.is_none() {
                return;
            }
        }
    }

    fn answer_file(&mut self, at: Address, result: Result<FileReply, Fault>) {
        let reply = match result {
            Ok(reply) => Reply::File(reply),
            Err(fault) => Reply::Fault(fault),
        };
        self.conns.reply(at, &reply);
    }

    fn answer_work(&mut self, at: Address, reply: &Reply) {
        let Some(channel) = self.conns.channel(at) else {
            return;
        };
        if let Call::Work = channel.call {
            self.conns.reply(at, reply);
        }
    }
}

/// Returns where relative paths start.
fn base(
    session: Option<io::Result<File>>,
    home: &std::path::Path,
    start_dir: PathBuf,
) -> Result<PathBuf, Fault> {
    if let Some(file) = session {
        let saved = SavedSession::read(file).map_err(|error| {
            Fault::new(FaultCode::System, format!("the session's state cannot be read: {error}"))
        })?;
        if let Some(saved) = saved
            && !saved.cwd.is_empty()
        {
            return Ok(path(saved.cwd));
        }
    }
    Ok(match start_dir.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => home.join(start_dir),
    })
}

fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}
