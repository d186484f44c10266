//! The groups whose partitions are led here: feeds events to the coordinator and carries out its
//! effects. Appends go the way of any produce with acks=all. Knows nothing of Kafka's frames.

mod load;
mod records;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use logic::cluster::change::NewTopic;
use logic::cluster::config::group::{self as config, GroupConfig};
use logic::cluster::{Record, Topic};
use logic::group::{
    AppendError, BatchId, Coordinator, Effect, Event, Now, OFFSETS_TOPIC, Request, Settings, Times,
    Token,
};
use logic::ids::{Instant, PartitionId, Timestamp, TopicId};
use logic::log::retention::Clock;
use logic::partition::leader::{Acks, Outcome, Refused as LeaderRefused};
use wire::group_records::GroupRecord;

use super::calls::Call;
use super::controller::partition_id;
use super::hosted::{Owed, now};
use super::mail::{Answer, Applied, Ask, ProduceItem, Refused, ShardId};
use super::{Shard, answer_to};

/// What an operator can set about groups, with Kafka's meanings.
#[derive(Clone, Debug)]
pub struct GroupLimits {
    /// Bounds of groups and their members.
    pub settings: Settings,
    /// `offsets.topic.num.partitions`.
    pub topic_partitions: i32,
    /// `offsets.topic.segment.bytes`.
    pub topic_segment_bytes: u32,
}

impl GroupLimits {
    /// The internal topic as it is made when the first group is looked for.
    pub fn offsets_topic(&self) -> NewTopic {
        let configs = [
            ("cleanup.policy", "compact".to_owned()),
            ("compression.type", "producer".to_owned()),
            ("segment.bytes", self.topic_segment_bytes.to_string()),
        ];
        NewTopic {
            name: OFFSETS_TOPIC.to_owned(),
            partitions: self.topic_partitions,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: configs
                .map(|(key, value)| (key.to_owned(), Some(value)))
                .into(),
        }
    }
}

/// The coordinator of one shard, and who waits for it.
pub struct Groups {
    coordinator: RefCell<Coordinator>,
    next_token: Cell<u64>,
    /// Who asked what is not answered yet.
    askers: RefCell<HashMap<Token, (ShardId, u64)>>,
    /// Appends by partition, oldest first; an entry is a task that follows them.
    appends: RefCell<HashMap<i32, VecDeque<(BatchId, Appending)>>>,
    /// The internal topic whose partitions are loaded.
    topic: Cell<Option<TopicId>>,
    armed: Cell<Option<Instant>>,
    /// Whether offsets may expire by the wall clock.
    clock: RefCell<Clock>,
    settle_ms: u64,
}

/// What becomes of an append.
enum Appending {
    /// The leader will say.
    Asked(Call),
    /// It never got that far.
    Failed(AppendError),
}

impl Groups {
    /// No groups yet.
    pub fn new(limits: &GroupLimits) -> Self {
        Self {
            coordinator: RefCell::new(Coordinator::new(limits.settings.clone())),
            next_token: Cell::new(0),
            askers: RefCell::default(),
            appends: RefCell::default(),
            topic: Cell::new(None),
            armed: Cell::new(None),
            clock: RefCell::new(Clock::new(now(), reactor::timer::wall_clock_ms())),
            settle_ms: limits.settings.retention_check_interval_ms,
        }
    }

    /// Whether these are records of groups, which no client can send.
    pub fn are_ours<'a>(&self, items: impl IntoIterator<Item = &'a ProduceItem>) -> bool {
        let topic = self.topic.get();
        let mut items = items.into_iter();
        items.all(|item| Some(item.partition.topic) == topic)
    }
}

/// Loads the groups of the partitions that are led here when the broker starts.
pub fn start(shard: &Rc<Shard>) {
    let topic = shard.metadata.topic_id(OFFSETS_TOPIC);
    shard.groups.topic.set(topic);
    let topics: Vec<TopicId> = shard.metadata.image().topics().map(|it| it.id).collect();
    for topic in topics {
        tell_of(shard, topic);
    }
    let configured: Vec<String> = {
        let image = shard.metadata.image();
        image.configured_groups().cloned().collect()
    };
    for group in configured {
        tell_of_group(shard, &group);
    }
    for (id, _) in shard.hosted.all() {
        if Some(id.topic) == topic {
            load::begin(shard, id);
        }
    }
}

/// Follows a change of topics: `gone` are those that were deleted.
pub fn follow(shard: &Rc<Shard>, applied: &Applied, gone: &[Topic]) {
    for topic in gone {
        if topic.name == OFFSETS_TOPIC {
            stop(shard);
            shard.groups.topic.set(None);
        } else {
            step(shard, Event::TopicDeleted(topic.name.clone()));
        }
    }
    for record in &applied.records {
        match record {
            Record::TopicCreated { id, .. } | Record::PartitionsAdded { id, .. } => {
                tell_of(shard, *id);
            }
            Record::GroupConfigSet { group, .. } => tell_of_group(shard, group),
            _ => {}
        }
    }
    let created = applied.records.iter().find_map(|record| match record {
        Record::TopicCreated { id, name, .. } if name == OFFSETS_TOPIC => Some(*id),
        _ => None,
    });
    let Some(topic) = created else {
        return;
    };
    shard.groups.topic.set(Some(topic));
    for (id, ..) in &applied.placement {
        if id.topic == topic && shard.hosted.get(*id).is_some() {
            load::begin(shard, *id);
        }
    }
}

/// Tells the coordinator of a topic that is new, or has grown.
fn tell_of(shard: &Rc<Shard>, topic: TopicId) {
    let known = shard.metadata.image().topic(topic).and_then(|topic| {
        let partitions = i32::try_from(topic.partitions.len()).ok()?;
        Some((topic.name.clone(), partitions))
    });
    if let Some((name, partitions)) = known {
        step(shard, Event::TopicChanged(name, topic, partitions));
    }
}

/// Tells the coordinator of a group's own configs.
fn tell_of_group(shard: &Rc<Shard>, group: &str) {
    let times = {
        let (image, statics) = (shard.metadata.image(), &shard.metadata.identity.statics);
        let ms = |config: &GroupConfig| config.value(&image, statics, group);
        image.group_configs(group).map(|_| Times {
            session_timeout_ms: ms(config::SESSION_TIMEOUT_MS).unsigned_abs(),
            heartbeat_interval_ms: i32::try_from(ms(config::HEARTBEAT_INTERVAL_MS))
                .unwrap_or(i32::MAX),
            assignment_interval_ms: ms(config::ASSIGNMENT_INTERVAL_MS).unsigned_abs(),
        })
    };
    step(shard, Event::GroupConfigured(group.to_owned(), times));
}

/// Answers whoever waits that there is no coordinator here any more.
pub fn stop(shard: &Rc<Shard>) {
    let partitions: Vec<i32> = {
        let coordinator = shard.groups.coordinator.borrow();
        coordinator.partitions().collect()
    };
    for partition in partitions {
        step(shard, Event::Unload(partition));
    }
}

/// Answers whoever waits for groups of a partition that cannot be served any more: nobody coordinates them.
pub fn leave(shard: &Rc<Shard>, id: PartitionId) {
    if shard.groups.topic.get() == Some(id.topic) {
        step(shard, Event::Unload(id.index));
    }
}

/// Takes one request about a group of a partition; the answer goes to `asker`.
pub fn ask(shard: &Rc<Shard>, asker: (ShardId, u64), partition: i32, request: Box<Request>) {
    let groups = &shard.groups;
    let token = Token(groups.next_token.get());
    groups.next_token.set(token.0 + 1);
    groups.askers.borrow_mut().insert(token, asker);
    step(shard, Event::Request(token, partition, request));
}

/// The groups that are loaded here, and whether others still load.
pub fn list(shard: &Shard) -> Answer {
    let (groups, loading) = shard.groups.coordinator.borrow().list();
    Answer::Groups(groups, loading)
}

/// Feeds one event to the coordinator and carries out what it says.
fn step(shard: &Rc<Shard>, event: Event) {
    let mut effects = Vec::new();
    let now = Now {
        instant: now(),
        wall: Timestamp(reactor::timer::wall_clock_ms()),
    };
    let groups = &shard.groups;
    groups
        .coordinator
        .borrow_mut()
        .step(now, event, &mut effects);
    let mut owed: Vec<Owed> = Vec::new();
    let mut unfollowed = Vec::new();
    for effect in effects {
        match effect {
            Effect::Reply { token, reply } => {
                let asker = groups.askers.borrow_mut().remove(&token);
                owed.extend(asker.map(|it| answer_to(it, Answer::Group(reply))));
            }
            Effect::Append {
                batch,
                partition,
                records,
            } => {
                if append(shard, batch, partition, &records) {
                    unfollowed.push(partition);
                }
            }
        }
    }
    shard.deliver(owed);
    arm(shard);
    // Last: a task may run at once, and what becomes of the first append is another event.
    for partition in unfollowed {
        let shard = shard.clone();
        reactor::spawn(async move { follow_appends(&shard, partition).await });
    }
}

/// Hands records to their partition's leader; says whether nobody follows appends to it yet.
fn append(shard: &Rc<Shard>, batch: BatchId, partition: i32, records: &[GroupRecord]) -> bool {
    let groups = &shard.groups;
    let wall = reactor::timer::wall_clock_ms();
    let id = groups.topic.get().map(|topic| PartitionId {
        topic,
        index: partition,
    });
    let appending = match id.map(|id| records::item(id, wall, records)) {
        Some(Some(item)) => {
            let call = shard.ask(shard.id, Ask::Produce(Acks::All, vec![item]));
            Appending::Asked(call)
        }
        Some(None) => Appending::Failed(AppendError::TooLarge),
        None => Appending::Failed(AppendError::NotLeader),
    };
    let mut appends = groups.appends.borrow_mut();
    let unfollowed = !appends.contains_key(&partition);
    appends
        .entry(partition)
        .or_default()
        .push_back((batch, appending));
    unfollowed
}

/// Tells the coordinator what became of each append to a partition, in order, until there is none.
async fn follow_appends(shard: &Rc<Shard>, partition: i32) {
    loop {
        let next = {
            let mut appends = shard.groups.appends.borrow_mut();
            let next = appends.get_mut(&partition).and_then(VecDeque::pop_front);
            if next.is_none() {
                appends.remove(&partition);
            }
            next
        };
        let Some((batch, appending)) = next else {
            return;
        };
        let failed = match appending {
            Appending::Failed(error) => Some(error),
            Appending::Asked(call) => {
                let Answer::Produced(mut outcomes) = call.await else {
                    unreachable!("a produce is answered by outcomes");
                };
                outcomes.pop().and_then(failure)
            }
        };
        step(
            shard,
            match failed {
                None => Event::Committed(batch),
                Some(error) => Event::Failed(batch, error),
            },
        );
    }
}

fn failure(outcome: Result<Outcome, Refused>) -> Option<AppendError> {
    match outcome {
        Ok(Outcome { result, .. }) => match result {
            Ok(_) => None,
            Err(LeaderRefused::TooLarge) => Some(AppendError::TooLarge),
            Err(LeaderRefused::Storage) => Some(AppendError::NotLeader),
            Err(_) => Some(AppendError::Unavailable),
        },
        Err(Refused::UnknownPartition | Refused::Storage) => Some(AppendError::NotLeader),
        Err(_) => Some(AppendError::Unavailable),
    }
}

/// Makes sure that the coordinator is woken when it wants to be.
fn arm(shard: &Rc<Shard>) {
    let groups = &shard.groups;
    let Some(at) = groups.coordinator.borrow().wake_at() else {
        return;
    };
    if groups.armed.get().is_some_and(|armed| armed <= at) {
        return;
    }
    groups.armed.set(Some(at));
    let shard = shard.clone();
    reactor::spawn(async move {
        let wait = at.0.saturating_sub(now().0);
        reactor::timer::sleep(Duration::from_nanos(wait)).await;
        if shard.groups.armed.get() == Some(at) {
            shard.groups.armed.set(None);
            look_at_clock(&shard.groups);
            step(&shard, Event::Wake);
        }
    });
}

fn look_at_clock(groups: &Groups) {
    let wall_ms = reactor::timer::wall_clock_ms();
    let mut clock = groups.clock.borrow_mut();
    let believed = clock.look(now(), wall_ms, groups.settle_ms).is_some();
    groups.coordinator.borrow_mut().believe_clock(believed);
}

/// Forgets what a loaded partition's groups have committed for topics that were deleted before: the broker
/// may have ended between a deletion and what follows of it.
fn forget_deleted(shard: &Rc<Shard>, partition: i32) {
    let committed = shard
        .groups
        .coordinator
        .borrow()
        .topics_committed(partition);
    for topic in committed {
        if shard.metadata.topic_id(&topic).is_none() {
            step(shard, Event::TopicDeleted(topic));
        }
    }
}

/// Which partition holds a group, if the internal topic is there.
pub fn partition_of(shard: &Shard, group: &str) -> Option<PartitionId> {
    let image = shard.metadata.image();
    let topic = image.topic_by_name(OFFSETS_TOPIC)?;
    let index = logic::group::partition_of(group, topic.partitions.len())?;
    Some(partition_id(topic.id, usize::try_from(index).ok()?))
}
