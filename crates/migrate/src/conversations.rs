//! Sessions of `state.db` made conversations, which are continued where they are, and found by search.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vestal_conversations::{
    ConversationEnd, ConversationId, ConversationStore, Error, ImportedMessage, ImportedStanding,
    New, ParentKind, Seq, Title,
};

use crate::database::{DatabaseProblem, SourceDatabase, SqlParameter, number, text};
use crate::ledger::{REMOVED, fingerprint};
use crate::message::message_of;
use crate::migration::MigratedHome;
use crate::plan::{Action, ItemKind, MigrationStep, PlanItem};

const FILE: &str = "state.db";
/// The version of the layout that this was written for; later ones are read as far as their columns are known.
const KNOWN_SCHEMA: i64 = 22;
/// What the state of a conversation here keeps about where it comes from.
const ORIGIN: &str = "migrated_from";
/// Messages that are written at once.
const BATCH: i64 = 200;

/// Where a conversation comes from, and how far it was taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ConversationOrigin {
    system: String,
    session: String,
    /// The last message that was read there.
    through: i64,
    /// The last message that was written here.
    seq: i64,
    /// Whether all of it was.
    complete: bool,
}

/// A session, as its row has it.
#[derive(Debug, Clone)]
struct SessionRow {
    id: String,
    source: String,
    title: Option<String>,
    model: String,
    provider: String,
    cwd: Option<PathBuf>,
    parent: Option<String>,
    started_at: Timestamp,
    ended: Option<ConversationEnd>,
}

/// How many messages a session has, and the number of the last.
type MessageCount = (i64, i64);

/// Sessions, how many messages each has, and what kept others from being read.
type ReadSessions = (Vec<SessionRow>, BTreeMap<String, MessageCount>, Option<DatabaseProblem>);

/// Says what becomes of each session.
pub(crate) async fn plan(place: &MigratedHome<'_>, items: &mut Vec<PlanItem>) {
    let broken = |from: &str, reason: String| {
        PlanItem::new(ItemKind::Conversation, place.name, from, Action::Broken, reason)
    };
    let mut database = match SourceDatabase::open(&place.source, FILE).await {
        Ok(None) => return,
        Ok(Some(database)) => database,
        Err(error) => return items.push(broken(FILE, error.to_string())),
    };
    if let Some(version) = database.schema_version().await.filter(|own| *own > KNOWN_SCHEMA) {
        let reason = format!(
            "has a newer layout ({version}; {KNOWN_SCHEMA} is known): what is known of it is read"
        );
        items.push(PlanItem::new(ItemKind::Other, place.name, FILE, Action::Leave, reason));
    }
    let (sessions, counts) = match read_sessions(&mut database).await {
        Ok((sessions, counts, problem)) => {
            if let Some(problem) = problem {
                let reason = format!("is damaged ({problem}); what can be read of it comes");
                items.push(broken(FILE, reason));
            }
            (sessions, counts)
        }
        Err(error) => return items.push(broken(FILE, error.to_string())),
    };
    let here = match ConversationStore::open_existing(place.home.dir().join(FILE)).await {
        Ok(here) => here,
        Err(error) => return items.push(broken(FILE, format!("here: {error}"))),
    };
    let known = match &here {
        Some(here) => here.with_state(ORIGIN).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let known: BTreeMap<ConversationId, ConversationOrigin> = known
        .into_iter()
        .filter_map(|(id, origin)| Some((id, serde_json::from_value(origin).ok()?)))
        .collect();
    for session in &sessions {
        let id = id_of(&session.id);
        let title = session.title.clone().unwrap_or_default();
        let item =
            PlanItem::new(ItemKind::Conversation, place.name, &session.id, Action::Take, title)
                .to(id.as_str());
        let count = counts.get(&session.id).copied();
        let decided = decide(place, here.as_ref(), &item, &id, known.get(&id), count).await;
        let (action, reason) = match decided {
            Ok(decided) => decided,
            Err(error) => (Action::Broken, format!("here: {error}")),
        };
        let reason = if reason.is_empty() { item.reason.clone() } else { reason };
        let item = PlanItem { action, reason, ..item };
        let step = MigrationStep::Conversation {
            home: place.home.clone(),
            database: place.source.dir.clone(),
            session: session.id.clone(),
            id,
        };
        items.push(if item.is_pending() { item.step(step) } else { item });
    }
    if let Some(here) = here {
        here.close().await.ok();
    }
}

async fn decide(
    place: &MigratedHome<'_>,
    here: Option<&ConversationStore>,
    item: &PlanItem,
    id: &ConversationId,
    origin: Option<&ConversationOrigin>,
    count: Option<MessageCount>,
) -> Result<(Action, String), Error> {
    let Some((_, last)) = count else {
        return Ok((Action::Leave, "it has no messages".to_owned()));
    };
    let Some(here) = here else { return Ok(absent(place, item)) };
    let Some(origin) = origin else {
        return match here.get(id).await {
            Ok(_) => Ok((Action::Keep, "another conversation has this id".to_owned())),
            Err(Error::NotFound { .. }) => Ok(absent(place, item)),
            Err(error) => Err(error),
        };
    };
    if origin.complete && origin.through >= last {
        return Ok((Action::Present, String::new()));
    }
    if here.last_number(id).await?.0 != origin.seq {
        return Ok((Action::Keep, "was continued here since".to_owned()));
    }
    if origin.complete {
        return Ok((Action::Update, "was continued there since".to_owned()));
    }
    Ok((Action::Take, "continues where it was interrupted".to_owned()))
}

fn absent(place: &MigratedHome<'_>, item: &PlanItem) -> (Action, String) {
    if place.ledger.has(&item.record_key()) {
        (Action::Leave, REMOVED.to_owned())
    } else {
        (Action::Take, String::new())
    }
}

/// Returns the id of a session here: its own, where that can be one.
fn id_of(session: &str) -> ConversationId {
    let made = format!("h-{}", &fingerprint(session)[..20]);
    session.parse().or_else(|_| made.parse()).unwrap_or_else(|_| unreachable!("{made} is an id"))
}

/// Reads all sessions, those before others that come from them, with how many messages each has.
async fn read_sessions(database: &mut SourceDatabase) -> Result<ReadSessions, DatabaseProblem> {
    let columns = database.columns("sessions").await?;
    let select: Vec<String> = [
        "id",
        "source",
        "title",
        "model",
        "billing_provider",
        "cwd",
        "parent_session_id",
        "end_reason",
    ]
    .iter()
    .map(|name| text(&columns, name))
    .chain(["started_at", "ended_at"].iter().map(|name| number(&columns, name)))
    .collect();
    let select = format!("SELECT {} FROM sessions", select.join(", "));
    let read = |row: &crate::database::SourceRow<'_>| {
        let ended = row.number("ended_at").map(|at| ConversationEnd {
            at: moment(at),
            reason: row.filled("end_reason").unwrap_or_default(),
        });
        Some(SessionRow {
            id: row.filled("id")?,
            source: row.filled("source").unwrap_or_else(|| "cli".to_owned()),
            title: row.filled("title"),
            model: row.filled("model").unwrap_or_default(),
            provider: row.filled("billing_provider").unwrap_or_default(),
            cwd: row.filled("cwd").map(PathBuf::from).filter(|cwd| cwd.is_absolute()),
            parent: row.filled("parent_session_id"),
            started_at: moment(row.number("started_at").unwrap_or(0.0)),
            ended,
        })
    };
    let (mut sessions, mut problem) = database.rows(select.clone(), &[], read).await;
    if problem.is_some() {
        // From the other end, up to the damage.
        let (more, _) = database.rows(format!("{select} ORDER BY rowid DESC"), &[], read).await;
        let known: Vec<String> = sessions.iter().map(|own| own.id.clone()).collect();
        sessions.extend(more.into_iter().filter(|own| !known.contains(&own.id)));
    }
    sessions.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
    let columns = database.columns("messages").await?;
    let (id, last) = (text(&columns, "session_id"), "CAST(max(id) AS REAL) AS last");
    let query =
        format!("SELECT {id}, CAST(count(*) AS REAL) AS count, {last} FROM messages GROUP BY 1");
    let count = |row: &crate::database::SourceRow<'_>| {
        Some((row.text("session_id")?, (row.int("count")?, row.int("last")?)))
    };
    let (counts, damaged) = database.rows(query, &[], count).await;
    let mut counts: BTreeMap<String, MessageCount> = counts.into_iter().collect();
    if damaged.is_some() {
        // One by one, as far as each can be read.
        for session in &sessions {
            let query = format!(
                "SELECT {id}, CAST(1 AS REAL) AS count, CAST(id AS REAL) AS last FROM messages WHERE session_id = ?"
            );
            let (rows, _) = database.rows(query, &[SqlParameter::Text(&session.id)], count).await;
            if let Some(last) = rows.iter().map(|(_, (_, last))| *last).max() {
                let many = i64::try_from(rows.len()).unwrap_or(i64::MAX);
                counts.insert(session.id.clone(), (many, last));
            }
        }
        problem = problem.or(damaged);
    }
    Ok((sessions, counts, problem))
}

/// Returns the moment of a number of seconds.
#[expect(clippy::cast_possible_truncation, reason = "it saturates")]
fn moment(seconds: f64) -> Timestamp {
    Timestamp::from_microsecond((seconds * 1e6) as i64).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The databases of sessions that are being read, by the home they belong to.
#[derive(Default)]
pub(crate) struct SessionReader {
    open: Option<OpenSessions>,
}

/// The sessions of a home there, and the conversations of the home here that they go to.
struct OpenSessions {
    dir: PathBuf,
    database: SourceDatabase,
    sessions: Vec<SessionRow>,
    store: ConversationStore,
}

impl SessionReader {
    /// Takes over a conversation, or what was said in it since.
    pub(crate) async fn apply(
        &mut self,
        source: &crate::source::SourceHome,
        home: &Path,
        session: &str,
        id: &ConversationId,
    ) -> Result<(), String> {
        if self.open.as_ref().is_none_or(|open| open.dir != source.dir) {
            let database =
                SourceDatabase::open(source, FILE).await.map_err(|error| error.to_string())?;
            let mut database = database.ok_or_else(|| format!("{FILE} is gone"))?;
            let sessions = read_sessions(&mut database).await.map_err(|error| error.to_string())?.0;
            let store = ConversationStore::open(home.join(FILE)).await;
            let store = store.map_err(|error| error.to_string())?;
            self.open = Some(OpenSessions { dir: source.dir.clone(), database, sessions, store });
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let row = open.sessions.iter().find(|own| own.id == session);
        let row = row.cloned().ok_or_else(|| "the session is gone".to_owned())?;
        let parent = open.sessions.iter().find(|own| Some(&own.id) == row.parent.as_ref());
        let parent_end = parent.and_then(|own| own.ended.as_ref()).map(|end| end.reason.clone());
        take(&mut open.database, &open.store, &row, parent_end.as_deref(), id).await
    }
}

async fn take(
    database: &mut SourceDatabase,
    store: &ConversationStore,
    row: &SessionRow,
    parent_end: Option<&str>,
    id: &ConversationId,
) -> Result<(), String> {
    let in_words = |error: Error| error.to_string();
    // Nobody continues it meanwhile.
    let _lease = store.lease(id).map_err(in_words)?;
    let mut origin = ConversationOrigin {
        system: "hermes-agent".to_owned(),
        session: row.id.clone(),
        through: 0,
        seq: 0,
        complete: false,
    };
    match store.get(id).await {
        Ok(_) => {
            let kept = store.state(id, ORIGIN).await.map_err(in_words)?;
            let kept = kept.and_then(|kept| serde_json::from_value(kept).ok());
            origin = kept.ok_or_else(|| "another conversation has this id".to_owned())?;
            if store.last_number(id).await.map_err(in_words)?.0 != origin.seq {
                return Err("it was continued here since".to_owned());
            }
        }
        Err(Error::NotFound { .. }) => create(store, row, parent_end, id, &origin).await?,
        Err(error) => return Err(in_words(error)),
    }
    let standings = standings(database, &row.id).await?;
    loop {
        let (messages, last) = read_messages(database, &row.id, origin.through, &standings).await?;
        let Some(last) = last else { break };
        origin.through = last;
        if !messages.is_empty() {
            let count = i64::try_from(messages.len()).unwrap_or(0);
            origin.seq += count;
            let state = serde_json::to_value(&origin).map_err(|error| error.to_string())?;
            let written = store.import_messages(id, &messages, (ORIGIN, &state)).await;
            let written = written.map_err(in_words)?;
            if written != Seq(origin.seq) {
                return Err("it was continued here meanwhile".to_owned());
            }
        }
    }
    origin.complete = true;
    let state = serde_json::to_value(&origin).map_err(|error| error.to_string())?;
    store.complete_import(id, row.ended.as_ref(), (ORIGIN, &state)).await.map_err(in_words)
}

async fn create(
    store: &ConversationStore,
    row: &SessionRow,
    parent_end: Option<&str>,
    id: &ConversationId,
    origin: &ConversationOrigin,
) -> Result<(), String> {
    let parent = match &row.parent {
        Some(parent) => {
            let parent = id_of(parent);
            let kind = match (row.source.as_str(), parent_end) {
                ("tool" | "subagent" | "delegate", _) => ParentKind::Delegation,
                (_, Some("branched")) => ParentKind::Branch,
                _ => ParentKind::Continuation,
            };
            // One that did not come is nobody's parent here.
            store.get(&parent).await.ok().map(|_| (kind, parent))
        }
        None => None,
    };
    let state = serde_json::to_value(origin).map_err(|error| error.to_string())?;
    let title = row
        .title
        .clone()
        .filter(|title| title.chars().any(|c| !c.is_whitespace() && !c.is_control()));
    let new = New {
        id: Some(id.clone()),
        title: title.map(Title::Generated),
        source: row.source.clone(),
        parent,
        provider: row.provider.clone(),
        model: row.model.clone(),
        cwd: row.cwd.clone(),
        // The instructions of that program mean nothing here; it gets ours when it is continued.
        system_prompt: String::new(),
        state: vec![(ORIGIN.to_owned(), state)],
    };
    store.import(&new, row.started_at).await.map(drop).map_err(|error| error.to_string())
}

/// Where each message stands, and its number here.
type Standings = BTreeMap<i64, ImportedStanding>;

/// Reads which messages count. Their numbers here follow from their order, for nothing else is in the
/// conversation.
async fn standings(database: &mut SourceDatabase, session: &str) -> Result<Standings, String> {
    let columns = database.columns("messages").await.map_err(|error| error.to_string())?;
    let query = format!(
        "SELECT CAST(id AS REAL) AS id, {}, {}, {} FROM messages WHERE session_id = ? ORDER BY messages.id",
        text(&columns, "role"),
        number(&columns, "active"),
        number(&columns, "compacted"),
    );
    let mut seq = 0;
    let read = |row: &crate::database::SourceRow<'_>| {
        let role = row.text("role")?;
        if !matches!(role.as_str(), "user" | "assistant" | "tool") {
            return None;
        }
        seq += 1;
        let is_active = row.int("active").unwrap_or(1) != 0;
        let is_compacted = row.int("compacted").unwrap_or(0) != 0;
        Some((row.int("id")?, seq, is_active, is_compacted))
    };
    let (rows, _) = database.rows(query, &[SqlParameter::Text(session)], read).await;
    let mut replaced_by = Seq(seq + 1);
    let mut standings = Standings::new();
    for (id, seq, is_active, is_compacted) in rows.into_iter().rev() {
        let standing = match (is_active, is_compacted) {
            (true, _) => ImportedStanding::Active,
            (false, true) => ImportedStanding::Compacted(replaced_by),
            (false, false) => ImportedStanding::Undone,
        };
        if is_active {
            replaced_by = Seq(seq);
        }
        standings.insert(id, standing);
    }
    Ok(standings)
}

/// Reads the next messages, and the number of the last row there that was read; none at the end.
async fn read_messages(
    database: &mut SourceDatabase,
    session: &str,
    after: i64,
    standings: &Standings,
) -> Result<(Vec<ImportedMessage>, Option<i64>), String> {
    let columns = database.columns("messages").await.map_err(|error| error.to_string())?;
    let texts = [
        "role",
        "content",
        "tool_call_id",
        "tool_calls",
        "tool_name",
        "finish_reason",
        "reasoning",
        "reasoning_content",
    ];
    let select: Vec<String> = texts
        .iter()
        .map(|name| text(&columns, name))
        .chain(["timestamp", "observed"].iter().map(|name| number(&columns, name)))
        .collect();
    let query = format!(
        "SELECT CAST(id AS REAL) AS id, CAST(length(CAST(content AS BLOB)) AS REAL) AS content_length, {} \
         FROM messages WHERE session_id = ? AND id > ? ORDER BY messages.id LIMIT {BATCH}",
        select.join(", ")
    );
    let mut last = None;
    let read = |row: &crate::database::SourceRow<'_>| {
        let id = row.int("id")?;
        last = Some(id);
        Some(ImportedMessage {
            message: message_of(row)?,
            at: moment(row.number("timestamp").unwrap_or(0.0)),
            standing: standings.get(&id).copied().unwrap_or(ImportedStanding::Active),
        })
    };
    let binds = [SqlParameter::Text(session), SqlParameter::Number(after)];
    let (messages, problem) = database.rows(query, &binds, read).await;
    match problem {
        // What came before the damage is worth keeping; the next round tells.
        Some(problem) if messages.is_empty() => Err(problem.to_string()),
        _ => Ok((messages, last)),
    }
}
