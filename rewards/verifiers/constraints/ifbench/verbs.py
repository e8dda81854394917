"""Whether a text starts with a verb: lists of English verbs, their endings, and the word after.

A word that is a verb or a noun ("water", "plan") counts as what the next word makes of it; where
that leaves it open, as a noun if it mostly is one. Modal verbs are verbs.
"""

import re

from rewards.verifiers.constraints import text as texts
from rewards.verifiers.constraints.ifbench.lexicon import word_set
from rewards.verifiers.constraints.ifbench.spelling import straight

_FINITE = word_set(
    "am is are was were be been being do does did done have has had having isn't aren't wasn't "
    "weren't don't doesn't didn't haven't hasn't hadn't can can't cannot could couldn't shall "
    "should shouldn't would wouldn't must mustn't won't"
)
_OPEN_MODALS = frozenset({"may", "might", "will"})

# Hardly ever nouns.
_VERBS = word_set(
    "abandon abide absolve absorb accelerate accept accommodate accompany accomplish accrue "
    "accuse achieve acknowledge acquaint acquire activate adapt add adhere adjoin adjust "
    "administer admire admit adopt adore advertise advise advocate affect affirm afford aggravate "
    "aggregate agree align allege allocate allow alter amaze amend amplify amuse analyse analyze "
    "animate announce annoy anticipate apologise apologize appear apply appoint appreciate "
    "approve argue arise arrange arrive ask aspire assassinate assemble assert assess assign "
    "assist assume assure attach attain attend attest attract authorize avenge avert avoid await "
    "awake ban baptise barter bathe beckon become befriend beg begin behave believe belittle "
    "belong bend bereave besiege bestow betray bicker bind blame bless blink blush boast boil "
    "borrow bounce brag breathe breed bribe brighten bring broaden browse build bury buy "
    "calculate calm captivate caress carpool carry carve categorise categorize cease celebrate "
    "centralise cheat cherish chew chide chirp choke choose chop churn circulate cite clarify "
    "classify clench cling coax collaborate collapse collect collide combine come commemorate "
    "commence commit communicate compare compel compensate compete compile complain comply "
    "compose comprehend compute conceal concede conceive concentrate conclude condemn condense "
    "confess configure confirm confiscate conform confound confront confuse congratulate conjure "
    "connect conquer conserve consider consist console consolidate conspire construct construe "
    "consult consume contain contemplate contend continue contribute converse convert convey "
    "convince cooperate coordinate cope correspond crave create creep cringe criticise criticize "
    "croak crouch cuddle culminate cultivate customise customize dangle dare dazzle debug deceive "
    "decide declare decode decompose decorate decrease decrypt dedicate deduce deem defeat defend "
    "define delete delight deliver delve demonstrate deny depend depict deploy deport derail "
    "derive descend describe deserve destroy detach detain detect deter deteriorate determine "
    "detonate devastate develop devise devote devour diagnose dictate differ differentiate "
    "diffuse dig dilute diminish dine disagree disappear disarm discard discover discuss "
    "disinfect dismiss disperse dispose disrupt dissolve distinguish distract distribute disturb "
    "dive diversify divide dominate donate download doze drag drape draw drench dribble drizzle "
    "drown dwell earn eat eavesdrop educate elect elevate eliminate elude embark embarrass embed "
    "embody embrace embroider emerge emit empathise empathize emphasise emphasize employ empower "
    "enable enact enchant encircle enclose encounter encourage endeavour endure engage engrave "
    "enhance enjoin enjoy enlarge enlighten enlist enrich enrol enroll ensue ensure entail "
    "entangle enter entertain entice entrust enumerate envisage envision equate equip eradicate "
    "erase erect erupt escalate escape establish evacuate evaluate evaporate evict evoke evolve "
    "exaggerate examine exceed excel exclude execute exert exhale exhaust exist expand expect "
    "explain explode exploit explore expose express extend extinguish extract facilitate fade "
    "fail falter fascinate fasten fathom feed feel fend fetch fidget finalise finalize flatten "
    "flatter flaunt flee flinch flip flourish flutter follow forbid foresee forewarn forge forget "
    "forgive forgo formalise formulate fortify foster frighten frustrate fry fulfil fulfill "
    "fumble gallop gape gather gaze generate get give glide glisten gnaw go gobble govern grab "
    "grate grieve grill grind grow grumble haggle happen harass harness hate haunt heal hear "
    "heave hesitate hide highlight hinder hire hiss hoist hover hum hurl hurry hypnotize idealise "
    "idealize identify ignore illuminate illustrate imagine immerse impair imply impose imprison "
    "improve improvise incite incline include incorporate indicate induce indulge infer inflate "
    "inflict inform infuriate infuse ingest inhabit inhale inherit inhibit initiate inject injure "
    "inquire inscribe insert insinuate insist inspect inspire install instruct insulate insure "
    "integrate intend intensify interact intercept interfere interpret interrogate interrupt "
    "intervene intimidate introduce intrude invade invalidate invent invert invest investigate "
    "invigorate invite involve irritate isolate join jot juggle jumble justify keep kidnap kindle "
    "knead kneel knit know launch lay learn lend let leverage linger listen loathe locate loiter "
    "loosen lose lug lunge lurk maim maintain make manage manipulate manufacture marinate marry "
    "marvel maximise maximize mean mediate meditate meet melt memorise memorize merge migrate "
    "mimic mingle minimise minimize mislead misplace mitigate moan mobilise mobilize modify "
    "moisten molest motivate mourn mow muffle multiply mumble munch murmur mutter nag narrate "
    "navigate neglect negotiate nibble nominate normalise normalize notify nudge nullify nurture "
    "obey oblige observe obsess obstruct obtain occupy occur offend omit ooze operate oppose "
    "oppress opt optimise optimize organise organize originate oust outgrow outlive outweigh "
    "overcome overcook overeat overflow overhear overload overlook overrule oversee overthrow owe "
    "pamper paraphrase parch parry participate pat peek peel penetrate perceive perform perish "
    "perplex persist persuade pertain peruse pester pierce pinpoint plead plunge poach ponder "
    "possess pounce pour pray preach precede predict prefer preheat prepare prescribe preserve "
    "preside presume pretend prevail prevent prioritise prioritize privatize proceed proclaim "
    "procure prod prohibit prolong promote pronounce proofread propel propose prosper protect "
    "prove provide provoke pry publish pucker pulsate punish purify pursue put quantify quell "
    "quench quit quiver quote ransack realise realize reap rearrange reassure rebuild recall "
    "recede receive recite reckon recline recognise recognize recoil recommend reconcile "
    "reconsider recover recycle redefine redesign reduce refactor refer refine reflect refrain "
    "refresh refuse regain regulate rehearse rehydrate reimagine reinforce reiterate reject "
    "rejoice rekindle relate relax relent relieve relinquish rely remain remember remind remodel "
    "remove rename render renew renovate reopen reorganize repay repeat repel repent rephrase "
    "replace replicate represent repress reprimand reproduce require resemble resent reset reside "
    "resign resist resolve respond restart restore restrain restrict restructure resume retain "
    "retaliate retell rethink retire retrieve reuse reveal revel revere revise revisit revive "
    "revolve rewind rewrite rid rinse ripen roam roast rub rummage satisfy saute save savor "
    "savour say scald scatter scoff scold scoop scour scrape scribble scrub seduce see seek seem "
    "seize select sell send serve set settle sever sew shake sharpen shatter shave shine shiver "
    "shorten shove shrink shut sift sigh simmer simplify simulate sing sink sit sizzle skim slay "
    "slurp smash smother smuggle snatch sneak sniff snore snuggle soak soar solicit solve soothe "
    "sow spank specialise specialize specify speculate spend spill spin splatter sprawl sprinkle "
    "squeeze squirm stabilise stabilize stagger stammer standardise standardize startle starve "
    "steal steer stimulate stir stoop straighten strengthen strip strive strum stumble stun "
    "stutter submit subscribe substitute subtract succeed sue suffer suggest sulk summarise "
    "summarize summon sunbathe suppose suppress surpass surrender surround survive sustain swap "
    "swat swear sweep swell swerve swim swish synthesise synthesize take tangle tantalize teach "
    "tell tend terminate thank think thrive throw thrust thump thwart tighten tinker tolerate "
    "totter trample transcend transcribe transform translate transmit traverse tread tremble tuck "
    "twinkle unbutton uncork uncover undergo underline understand undertake undo undress unearth "
    "unfold unhook unify unite unlace unleash unload unlock unpack unplug unravel unroll unscrew "
    "untangle untie unveil unwind unwrap unzip uphold upload usher utilise utilize validate "
    "vanish vary venture verify vibrate victimize vilify visualise visualize vomit vow wade wag "
    "waive wallow wander wane warn weaken weave weep weigh weld wheeze whimper whip whisk whittle "
    "whiz widen wield wilt winnow withdraw wither withhold withstand wobble woo wrestle wriggle "
    "wring write yank yearn"
)
# Nouns or adjectives too, but mostly verbs where a text starts with them.
_MOSTLY_VERBS = word_set(
    "act aim answer approach attack attempt bake balance break brew brush call cancel capture "
    "catch change chat check chill claim clap clean clear click climb close comment complete "
    "compliment cook copy correct count cover crawl cut dance deal demand design digest dip "
    "dispatch display draft drain dream dress drink drive drop dust ease elaborate end enquire "
    "estimate exercise fall fear fight fill find finish fit fix flick float fly focus fold force "
    "free gain garnish glance graduate grant guess guide hang haul help hit hold hop hope hug "
    "hunt hurt hush implement impress increase jump kick kill kiss knock lament laugh lead lean "
    "leap leave lie lift limit live load look loop love lower mash massage measure mend mention "
    "mind miss mix mock move need note notice offer open outline overlap pack paint pass pause "
    "pay peer pick pinch place plan plant play pluck point poke practice practise press print "
    "promise pull pump purchase push raise ramble rank rate reach read rebel record release reply "
    "report request rescue research rest return review ride ring rip rise roll run rush sail "
    "salute scan scratch scream scroll search secure separate share shift shoot shout show shred "
    "shuffle sign sip skip slam slap sleep slice slide slip smell smile smoke sort sound speak "
    "spell splash split spoil spoon spot spread stab stack stand stare start state stay steep "
    "step stew stick stop strike stroll struggle study support surprise switch talk tap taste "
    "taunt tease test tickle tidy toss touch tow trace track train transfer trap travel treat "
    "trim trust try tug turn twist type update upgrade use view visit wait wake walk want wash "
    "watch wear welcome wiggle win wipe wish witness wonder work worry wrap"
)
_MOSTLY_NOUNS = word_set(
    "access ache advance age aid air alarm alert ally anchor anger appeal arm arrest assault "
    "audit average award back bandage bank bar bargain bark base battle bear beat bed bet bill "
    "bite blend block blossom blow board boat body bomb book boost border bottle bow box braid "
    "brand bridge broadcast bruise buckle bulk bully bump burn butter button buzz camp care cast "
    "cause caution center centre chain chair challenge champion chance channel chant charge charm "
    "chart chase cheer chuckle circle class coach coat code coil color colour comfort command "
    "commute compass concern conduct contact contest contrast control cool cost cough crack "
    "cradle craft crank crash credit cripple crochet cross crowd crush cry curb cure curl cycle "
    "dab damage dash date debate decline delay dent detail discipline disguise disgust dislike "
    "dispute document dodge doubt dread drill dry dub dull dump dye echo edit effect empty "
    "engineer escort exchange exhibit exile experience experiment export eye face faint farm "
    "fashion fast favor favour feast feature ferment ferry field figure file film filter fire "
    "fish flag flap flash flirt flood flow flower foam foil forecast form frame freeze frolic "
    "frown fume function fund fuse gamble garden gasp gift giggle gleam glimpse glow glue grade "
    "grasp greet grin grip groan groom ground group grunt guarantee guard gulp hack hail halt "
    "hammer hand handle harm harvest head heat herd hike hoard honor honour host house howl humor "
    "ice idle impact import index influence input insult interest interview iron issue itch jab "
    "jam jeer jest jog joke journal journey judge keel knot label lace land landscape lash lather "
    "lecture level lick light link list lock log loot lure mail map march mark market mask master "
    "match mate matter mirror model monitor mop motion mount mouth murder nail name narrow nest "
    "nod number nurse object order own parade pardon park part paste peak peck people perch "
    "permit phone photograph picture pilot pin pitch plate plot plow plunder poison polish pop "
    "pose position post pound power praise present price prick prime probe process produce "
    "profile profit program progress project protest prune punch purpose quake quarrel question "
    "queue quiz race rain rake range rap rattle rave reason rebuke recruit reel refill refund "
    "regard relay relish remark remedy repair reserve respect result retreat revolt reward risk "
    "rival rock root rope rot route row ruin rule rumble sabotage sample sand scale scare "
    "schedule school score scowl scramble screen seal season seat sense shade shadow shape "
    "shelter shield ship shock shop shower shriek shrug signal silence skate sketch ski skid "
    "sling slow slump smack smear smirk smooth snap sneer sneeze snow sob space spar spark spice "
    "spit sponsor spray spring sprint sprout spur squash squat squeak squeal stage stain stall "
    "stamp star stash steam stitch stock store storm strain strap stray stream stress stretch "
    "stroke structure stuff style subject sugar suit supply surface survey suspect swallow sway "
    "swing swirl tackle tailor tame tan target tax team tear telephone tempt thaw thread tie tilt "
    "time tint tip title toast top torment torture total tour tower trade trail transport trek "
    "trick trickle trip trot trouble tumble twirl twitch upset urge vacuum value vault voice "
    "volunteer vote wage wail waltz warm warp waste water wave weather whine whirl whisper "
    "whistle wind wink worship wound wreck yield zoom"
)
_PAST = word_set(
    "arose ate awoke became began bent born bought bound bred broke broken brought built came "
    "caught chose chosen clung crept did done drank drawn drew driven drove dug eaten fallen fell "
    "felt fled flew forbade forgot forgotten fought found froze frozen gave given gone got grew "
    "grown heard held hid hidden kept knelt knew known laid led lent lost made meant met paid "
    "proven ran rang said sang sank sat seen sent shone shook shown slept slid sold sought spent "
    "spoke spoken sprang stole stolen stood struck stuck swam swept swore sworn taken taught "
    "thought threw thrown told took tore torn understood went woke won wore worn wove written "
    "wrote"
)
_NOUNS_IN_ING = word_set(
    "beginning blessing boating building ceiling clothing dwelling evening feeling filing finding "
    "fishing heading hearing landing lighting living marketing meaning meeting morning offering "
    "opening painting parking pudding rating reading recording savings setting shipping shopping "
    "spelling swimming training understanding warning wedding writing"
)
_OBJECTS = word_set(
    "a an the this that these those my your his her its our their whose me you him it us them "
    "myself yourself himself herself itself ourselves themselves everyone everything someone "
    "something anyone anything nothing all any each every some both no more less several many few "
    "one two three four five to up down out off away back over around along together again now "
    "then how what why when where whether which who if here there not"
)
_NOT_AFTER_VERBS = _FINITE | {"of", "will", "may", "might"}


def starts_with_verb(text: str) -> bool:
    """Whether the first word of `text` is a verb, in any form; marks before it do not matter."""
    words = [straight(word).lower() for word in texts.words(text[:2000])[:2]]
    if not words or not words[0][0].isalpha():
        return False
    first, following = words[0], words[1] if len(words) > 1 else ""
    if first in _FINITE:
        return True
    first = re.sub(r"'\w+$", "", first)
    if first in _OPEN_MODALS:
        return following in _OBJECTS or following in ("i", "we", "he", "she", "they")
    return _is_verb(first, following)


def _is_verb(word: str, following: str) -> bool:
    if word in _VERBS or word in _PAST:
        return True
    if word in _MOSTLY_VERBS:
        return following not in _NOT_AFTER_VERBS
    if word in _MOSTLY_NOUNS:
        return following in _OBJECTS
    return _is_inflected(word, following)


def _is_inflected(word: str, following: str) -> bool:
    if word.endswith("ing"):
        return _has_base(word[:-3]) and (word not in _NOUNS_IN_ING or following in _OBJECTS)
    if word.endswith("ed"):
        return word not in ("united", "seed") and _has_base(word[:-2])
    return word.endswith("s") and bool(_VERBS & {word[:-1], word[:-2], f"{word[:-3]}y"})


def _has_base(stem: str) -> bool:
    """Whether `stem` is a verb, with an e or a y, or with its last letter once."""
    bases = {stem, f"{stem}e", stem[:-1] if stem[-2:-1] == stem[-1:] else stem}
    if stem.endswith("i"):
        bases.add(f"{stem[:-1]}y")
    if stem.endswith("y"):
        bases.add(f"{stem[:-1]}ie")
    return not bases.isdisjoint(_VERBS | _MOSTLY_VERBS | _MOSTLY_NOUNS)
