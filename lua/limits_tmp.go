package lua

func (k Keys) Limits() string { return k.prefix + "belay:limits" }

func (k Keys) Gates() string { return k.prefix + "belay:gates" }

func (k Keys) Slots(identity string) string { return k.prefix + "belay:slots:" + identity }

func (k Keys) Admitted() string { return k.prefix + "belay:admitted" }

func (k Keys) Waiting() string { return k.prefix + "belay:waiting" }

func (k Keys) WaitingList(gate string) string { return k.prefix + "belay:waiting:" + gate }
