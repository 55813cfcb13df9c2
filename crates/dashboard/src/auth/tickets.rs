//! Tickets for `WebSocket`s: a page asks for one and connects with it at once.
//!
//! A browser sends cookies with the first request of a WebSocket from any page, and lets no page add
//! a header. A ticket shows that the page could read an answer of this server a moment ago.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::store::{SessionId, Token};
use crate::gate::Caller;

/// How long a ticket counts.
pub(crate) const TICKET_LIFE: Duration = Duration::from_secs(30);

/// Tickets that may wait to be used; the oldest go first.
const MAX_TICKETS: usize = 1000;

/// Whose a ticket is: a session's, or a person's whom a proxy has let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TicketOwner {
    session: Option<SessionId>,
    name: String,
}

impl From<&Caller> for TicketOwner {
    fn from(caller: &Caller) -> Self {
        Self { session: caller.session.clone(), name: caller.principal.name.clone() }
    }
}

/// Tickets that were made and not used yet. They need not outlive the process: a page asks again.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<HashMap<String, (Instant, TicketOwner)>>);

impl Tickets {
    /// Makes a ticket for somebody.
    pub(crate) fn issue(
        &self,
        owner: TicketOwner,
        now: Instant,
    ) -> Result<Token, getrandom::Error> {
        let ticket = Token::generate()?;
        let mut tickets = self.lock();
        tickets.retain(|_, (issued, _)| now.duration_since(*issued) < TICKET_LIFE);
        if tickets.len() >= MAX_TICKETS
            && let Some(oldest) = tickets.iter().min_by_key(|(_, (issued, _))| *issued)
        {
            let oldest = oldest.0.clone();
            tickets.remove(&oldest);
        }
        tickets.insert(ticket.expose().to_owned(), (now, owner));
        Ok(ticket)
    }

    /// Takes a ticket, which counts once. Returns whether it was valid for this sender.
    pub(crate) fn redeem(&self, ticket: &str, sender: &TicketOwner, now: Instant) -> bool {
        let issued = self.lock().remove(ticket);
        issued.is_some_and(|(issued, owner)| {
            now.duration_since(issued) < TICKET_LIFE && owner == *sender
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, TicketOwner)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> TicketOwner {
        TicketOwner { session: None, name: name.to_owned() }
    }

    #[test]
    fn a_ticket_counts_once_for_its_session_and_for_thirty_seconds() {
        let tickets = Tickets::default();
        let start = Instant::now();
        let me = owner("me");
        let ticket = tickets.issue(me.clone(), start).unwrap();
        assert!(tickets.redeem(ticket.expose(), &me, start));
        assert!(!tickets.redeem(ticket.expose(), &me, start), "it was used");
        let ticket = tickets.issue(me.clone(), start).unwrap();
        assert!(!tickets.redeem(ticket.expose(), &me, start + TICKET_LIFE), "it is too old");
        let ticket = tickets.issue(me.clone(), start).unwrap();
        let other = owner("another whom the proxy let in");
        assert!(!tickets.redeem(ticket.expose(), &other, start), "it is somebody else's");
        assert!(!tickets.redeem("", &me, start));
    }

    #[test]
    fn tickets_that_nobody_uses_take_bounded_memory() {
        let tickets = Tickets::default();
        let start = Instant::now();
        for _ in 0..MAX_TICKETS + 10 {
            tickets.issue(owner("me"), start).unwrap();
        }
        assert_eq!(tickets.lock().len(), MAX_TICKETS);
    }
}
