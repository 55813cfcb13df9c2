//! All connections, and what is said to them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use minicbor::Encode;
use vestal_wire::{EncodeError, Event, Fault, FaultCode, Kind, Reply, Role, Stream, encode};

use super::channel::{Call, Channel};
use super::clock::{IdleClock, Use};
use super::conn::{Conn, ConnState};
use super::ids::{Address, ConnId};
use crate::log::LogStream;

/// Connections at once; more are turned away.
pub(super) const MAX_CONNECTIONS: usize = 512;

/// All connections.
#[derive(Debug)]
pub(super) struct Conns {
    map: HashMap<ConnId, Conn>,
    next: u64,
    /// Connections with something to write or to close.
    dirty: Vec<ConnId>,
    pub(super) clock: IdleClock,
}

impl Conns {
    pub(super) fn new(clock: IdleClock) -> Self {
        Self { map: HashMap::new(), next: 0, dirty: Vec::new(), clock }
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn ids(&self) -> Vec<ConnId> {
        self.map.keys().copied().collect()
    }

    /// Returns whether bytes wait for a host to read them.
    pub(super) fn is_unread(&self) -> bool {
        self.map.values().any(|conn| conn.waiting() > 0)
    }

    pub(super) fn insert(&mut self, fd: OwnedFd) -> ConnId {
        let id = ConnId(self.next);
        self.next += 1;
        self.map.insert(id, Conn::new(fd));
        id
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.map.get_mut(&id)
    }

    /// Removes a connection; its open calls are no longer use.
    pub(super) fn remove(&mut self, id: ConnId) -> Option<Conn> {
        let conn = self.map.remove(&id)?;
        for channel in conn.channels.values() {
            self.clock.call_closed(channel.kind);
        }
        Some(conn)
    }

    /// Returns how many owners are connected.
    pub(super) fn owners(&self) -> usize {
        self.map.values().filter(|conn| conn.role == Some(Role::Owner)).count()
    }

    /// Returns whether a client other than this one has a call open that is use.
    pub(super) fn others_busy(&self, except: ConnId) -> bool {
        self.map.iter().any(|(id, conn)| {
            *id != except && conn.channels.values().any(|channel| channel.kind == Use::Counts)
        })
    }

    pub(super) fn channel(&mut self, at: Address) -> Option<&mut Channel> {
        self.map.get_mut(&at.conn)?.channels.get_mut(&at.channel)
    }

    /// Opens a channel.
    pub(super) fn open(&mut self, at: Address, call: Call, kind: Use) {
        if let Some(conn) = self.map.get_mut(&at.conn) {
            conn.channels.insert(at.channel, Channel::new(call, kind));
            self.clock.call_opened(kind);
        }
    }

    /// Says something on the way.
    pub(super) fn event(&mut self, to: Address, event: &Event) {
        // An event is always shorter than the limit: its parts are bounded.
        self.message(to, Kind::Event, event).ok();
    }

    /// Says the last word and closes the channel.
    pub(super) fn reply(&mut self, to: Address, reply: &Reply) {
        let Some(conn) = self.map.get_mut(&to.conn) else {
            return;
        };
        if let Some(channel) = conn.channels.remove(&to.channel) {
            self.clock.call_closed(channel.kind);
        }
        if let Err(error) = self.message(to, Kind::Reply, reply) {
            let fault = Fault::new(FaultCode::NoSpace, format!("the answer is too long: {error}"));
            self.message(to, Kind::Reply, &Reply::Fault(fault)).ok();
        }
    }

    /// Ends a channel with a fault.
    pub(super) fn fault(&mut self, to: Address, code: FaultCode, message: impl Into<String>) {
        self.reply(to, &Reply::Fault(Fault::new(code, message)));
    }

    /// Sends bytes of a job's stream, which the channel has credit for.
    pub(super) fn output(&mut self, to: Address, stream: LogStream, bytes: &[u8]) {
        let Some(conn) = self.map.get_mut(&to.conn) else {
            return;
        };
        if let Some(channel) = conn.channels.get_mut(&to.channel) {
            channel.spend(stream, bytes.len());
            conn.push_data(to.channel, stream.on_wire(), bytes);
            self.mark_dirty(to.conn);
        }
    }

    /// Sends bytes of a file.
    pub(super) fn content(&mut self, to: Address, bytes: &[u8]) {
        if let Some(conn) = self.map.get_mut(&to.conn) {
            conn.push_data(to.channel, Stream::Content, bytes);
            self.mark_dirty(to.conn);
        }
    }

    /// Notes that bytes from the host were taken, and lets it go on.
    pub(super) fn taken(&mut self, from: Address, stream: Stream, bytes: usize) {
        let granted = self.channel(from).and_then(|channel| channel.taken(stream, bytes));
        if let Some(granted) = granted {
            self.grant(from, stream, granted);
        }
    }

    /// Lets the host send more.
    pub(super) fn grant(&mut self, to: Address, stream: Stream, bytes: u32) {
        if let Some(conn) = self.map.get_mut(&to.conn) {
            conn.push(to.channel, Kind::Credit, stream, &bytes.to_le_bytes());
            self.mark_dirty(to.conn);
        }
    }

    /// Has a connection closed at the end of the turn, when what waits has been
    /// written as far as the host takes it.
    pub(super) fn close(&mut self, id: ConnId) {
        if let Some(conn) = self.map.get_mut(&id) {
            conn.state = ConnState::Closing;
            self.mark_dirty(id);
        }
    }

    /// Returns how many bytes of a job's stream a follower takes now.
    pub(super) fn room(&mut self, to: Address, stream: LogStream) -> u64 {
        let Some(conn) = self.map.get_mut(&to.conn) else {
            return 0;
        };
        match conn.channels.get(&to.channel).map(|channel| channel.credit(stream)) {
            Some(credit) if credit > 0 && conn.has_room() => credit,
            _ => 0,
        }
    }

    /// Sends any message.
    pub(super) fn message(
        &mut self,
        to: Address,
        kind: Kind,
        message: &impl Encode<()>,
    ) -> Result<(), EncodeError> {
        let bytes = encode(message)?;
        if let Some(conn) = self.map.get_mut(&to.conn) {
            conn.push(to.channel, kind, Stream::Input, &bytes);
            self.mark_dirty(to.conn);
        }
        Ok(())
    }

    /// Takes the connections that have something to write or to close.
    pub(super) fn take_dirty(&mut self) -> Vec<ConnId> {
        let dirty = std::mem::take(&mut self.dirty);
        for id in &dirty {
            if let Some(conn) = self.map.get_mut(id) {
                conn.dirty = false;
            }
        }
        dirty
    }

    pub(super) fn mark_dirty(&mut self, id: ConnId) {
        if let Some(conn) = self.map.get_mut(&id)
            && !conn.dirty
        {
            conn.dirty = true;
            self.dirty.push(id);
        }
    }
}
