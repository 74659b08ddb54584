package message_test

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/message"
)

// A message is checked, encoded into the payload of a record, and read back without copying.
func Example() {
	m := message.Message{
		ID: 42, Topic: 7, QueueOffset: -1, DueMs: 1_796_036_533_123,
		Tag: []byte("TagA"), Key: []byte("order-42"), Body: []byte("close it"),
	}
	m.Tags, m.KeyHash = message.TagHash(m.Tag), message.KeyHash(m.Key)
	m.Properties = message.AppendProperty(m.Properties, "region", "north")
	if err := message.CheckProperties(m.Properties); err != nil {
		fmt.Println(err)
	}
	if err := m.Check(); err != nil {
		fmt.Println(err)
	}
	payload := m.Append(nil)

	var got message.Message
	if err := message.Decode(payload, &got); err != nil {
		fmt.Println(err)
	}
	region, _ := got.Properties.Lookup("region")
	fmt.Printf("%d bytes: %d %s %s %s\n", len(payload), got.ID, got.Key, region, got.Body)
	// Output: 138 bytes: 42 order-42 north close it
}

func ExampleCheckProperties() {
	list := message.AppendProperty(nil, "DELAY", "3")
	fmt.Println(message.CheckProperties(list))
	// Output: message: properties: name "DELAY" is reserved: the delay level is a field of the message
}

func ExampleProperties_All() {
	list := message.AppendProperty(nil, "UNIQ_KEY", "7F000001")
	list = message.AppendProperty(list, "WAIT", "true")
	for name, value := range list.All() {
		fmt.Printf("%s=%s\n", name, value)
	}
	// Output:
	// UNIQ_KEY=7F000001
	// WAIT=true
}

func ExampleTagHash() {
	fmt.Println(message.TagHash("TagA"))
	// Output: 2598919
}

func ExampleValidTopic() {
	fmt.Println(message.ValidTopic("orders"))
	fmt.Println(message.ValidTopic("a/b"))
	// Output:
	// <nil>
	// message: topic name "a/b" is not allowed: byte 1; allowed are A-Z a-z 0-9 _ % -
}
