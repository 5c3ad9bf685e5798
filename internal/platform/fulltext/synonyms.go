package fulltext

import "strings"

// synonymLines has words, and after the colon other words for them with the weight of those. The words of a line are no
// synonyms of each other unless they have lines of their own. All are as people write them.
const synonymLines = `
create: add 0.7 new 0.7 insert 0.7 post 0.6 make 0.5 open 0.5 creation 0.8
add: create 0.7 insert 0.7 append 0.6 put 0.4 post 0.5 invite 0.3
new: create 0.8 add 0.6 insert 0.6 post 0.5
insert: create 0.7 add 0.7
make: create 0.8 post 0.4 new 0.4
open: create 0.6
post: send 0.6 create 0.7 publish 0.6 add 0.5
send: post 0.6 create 0.4 deliver 0.5
publish: post 0.6 create 0.4 release 0.4
list: get 0.6 find 0.5 search 0.5 all 0.4 query 0.4
get: retrieve 0.9 fetch 0.9 list 0.6 read 0.7 show 0.7 find 0.5 info 0.5 lookup 0.5 view 0.6
retrieve: get 0.9 fetch 0.9 list 0.5
fetch: get 0.9 retrieve 0.9 list 0.5
read: get 0.9 retrieve 0.8 list 0.5
show: get 0.9 retrieve 0.8 list 0.6
view: get 0.9 retrieve 0.8 list 0.6
check: get 0.5 verify 0.5
find: search 0.9 list 0.6 get 0.6 lookup 0.8 query 0.6
search: find 0.9 query 0.7 list 0.5 lookup 0.6
lookup: find 0.8 search 0.7 get 0.6
query: search 0.8 find 0.6
delete: remove 0.9 destroy 0.9 trash 0.5
remove: delete 0.9 destroy 0.7
destroy: delete 0.9 remove 0.7
update: edit 0.9 modify 0.9 change 0.9 patch 0.8 set 0.6 put 0.5
edit: update 0.9 modify 0.8 change 0.8 patch 0.7
change: update 0.9 edit 0.8 modify 0.8 set 0.6 patch 0.7
modify: update 0.9 edit 0.8 change 0.8 patch 0.7
set: update 0.7 put 0.5
rename: update 0.7 edit 0.6
cancel: delete 0.6 stop 0.6 terminate 0.5 void 0.5 abort 0.6
stop: cancel 0.6 pause 0.5 disable 0.5
start: run 0.6 begin 0.6 trigger 0.5 create 0.4 enable 0.4
run: start 0.6 trigger 0.6 execute 0.8 dispatch 0.6
trigger: dispatch 0.8 run 0.6 start 0.6 create 0.3
execute: run 0.8 trigger 0.5
retry: rerun 0.9 restart 0.6 resend 0.4
schedule: create 0.6 plan 0.4 add 0.4
book: create 0.6 reserve 0.7 schedule 0.5
buy: purchase 0.9 provision 0.6 order 0.6 create 0.5
purchase: buy 0.9 order 0.5
order: purchase 0.4
pay: payment 0.7 charge 0.5
charge: payment 0.6
payment: charge 0.6 pay 0.5
refund: reverse 0.4 reversal 0.4
capture: complete 0.5
upload: create 0.5 insert 0.5 add 0.4 import 0.4 content 0.4
download: get 0.5 export 0.5 content 0.5
share: permission 0.7 collaborate 0.6 collaboration 0.6 invite 0.4
invite: invitation 0.8 add 0.5
kick: remove 0.7
assign: assignee 0.8 assignment 0.7
approve: approval 0.7 accept 0.6
reject: decline 0.8 deny 0.7
acknowledge: ack 0.95
ack: acknowledge 0.95
generate: generation 0.8 create 0.7
transcribe: transcription 0.9
translate: translation 0.9
deploy: deployment 0.9
subscribe: subscription 0.7 follow 0.4
unsubscribe: unsubscription 0.7 suppression 0.5
react: reaction 0.9
reply: respond 0.5 comment 0.5 message 0.3
comment: note 0.5 reply 0.4
note: comment 0.5
star: favorite 0.6 like 0.4
like: favorite 0.6 star 0.5
issue: ticket 0.6 bug 0.5
ticket: issue 0.6 case 0.5
bug: issue 0.7
message: chat 0.4 dm 0.6 sms 0.6 mail 0.3
chat: message 0.5 conversation 0.5
dm: message 0.6
sms: message 0.7 text 0.5
text: message 0.5 sms 0.6
msg: message 0.9
email: mail 0.9 message 0.5
mail: email 0.9 message 0.4
inbox: mailbox 0.6 message 0.4
newsletter: campaign 0.7
channel: conversation 0.7 room 0.5
room: channel 0.6 conversation 0.5
conversation: channel 0.5 chat 0.5 thread 0.5
event: meeting 0.5 appointment 0.5
meeting: event 0.5 appointment 0.5
appointment: event 0.7 meeting 0.6 booking 0.5
project: app 0.5 repository 0.4 repo 0.4 site 0.4
repo: repository 0.95
repository: repo 0.95
pr: pull 0.8 pullrequest 0.8
branch: ref 0.3
build: pipeline 0.5 job 0.4
pipeline: build 0.5 workflow 0.4
workflow: pipeline 0.4
hook: webhook 0.8
webhook: hook 0.8
org: organization 0.95
organization: org 0.95 workspace 0.4
company: organization 0.6 account 0.4
user: member 0.5 person 0.5 people 0.5 account 0.4
member: user 0.5 people 0.4
subscriber: member 0.7 contact 0.6 recipient 0.5
customer: client 0.5
client: customer 0.6
contact: person 0.4
person: people 0.9 user 0.5
people: person 0.9 user 0.5
song: track 0.9
track: song 0.8
music: track 0.5 playback 0.4
film: movie 0.9 video 0.5
picture: image 0.9 photo 0.9
photo: image 0.8 picture 0.8
image: photo 0.7 picture 0.8
folder: directory 0.8
directory: folder 0.8
doc: document 0.95
document: doc 0.9 file 0.4
spreadsheet: sheet 0.9
sheet: spreadsheet 0.9
row: value 0.6 record 0.5
cell: value 0.5
db: database 0.95
database: db 0.9
vm: instance 0.7 server 0.7 droplet 0.6 machine 0.6
server: instance 0.6 droplet 0.5 machine 0.5
instance: server 0.4
secret: credential 0.4
config: configuration 0.95 setting 0.6
configuration: config 0.95 setting 0.5
setting: configuration 0.5 preference 0.5
auth: authentication 0.9 authorization 0.7
k8s: kubernetes 0.95
kubernetes: k8s 0.9
env: environment 0.9
variable: var 0.8 env 0.4
tweet: status 0.4
todo: task 0.8
task: todo 0.6
invoice: bill 0.5
bill: invoice 0.6
`

// synonym is another word for a word, as a stem.
type synonym struct {
	stem   string
	weight float32
}

// readSynonyms returns the synonyms by the stems of words.
func readSynonyms() map[string][]synonym {
	table := map[string][]synonym{}
	for line := range strings.Lines(synonymLines) {
		words, others, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found {
			continue
		}
		key := string(stem([]byte(words)))
		table[key] = append(table[key], readPairs(others)...)
	}
	return table
}

// readPairs reads words, each with a weight after it.
func readPairs(text string) (out []synonym) {
	pairs := strings.Fields(text)
	for i := 0; i+1 < len(pairs); i += 2 {
		weight := float32(pairs[i+1][2]-'0') / 10
		if len(pairs[i+1]) > 3 {
			weight += float32(pairs[i+1][3]-'0') / 100
		}
		out = append(out, synonym{string(stem([]byte(pairs[i]))), weight})
	}
	return out
}
